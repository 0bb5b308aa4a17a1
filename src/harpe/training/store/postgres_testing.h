#pragma once
/// \file
/// A real PostgreSQL for tests: Debian's programs, started as an unprivileged user in a temporary
/// directory, reached by a Unix socket there. It ends with the test, however the test ends.

#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/training/store/postgres_session.h"

namespace harpe::training {

class PostgresServer {
 public:
  /// Returns the server of this test program, with everything that was created in it before.
  static PostgresServer& shared() {
    static PostgresServer server;
    return server;
  }

  PostgresServer() {
    std::string name = "/tmp/harpe-postgres-XXXXXX";
    directory_ = ::mkdtemp(name.data());
    if (::getuid() == 0) {
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr) user = ::getpwnam("nobody");
      user_ = user->pw_uid;
      group_ = user->pw_gid;
      if (::chown(directory_.c_str(), user_, group_) != 0) fail("cannot give its directory away");
    }
    run({program("initdb"), "--pgdata", data(), "--username=harpe", "--auth=trust", "--no-sync",
         "--no-instructions", "--locale=C", "--encoding=UTF8"});
    // No data must survive a power failure.
    write("postgresql.conf",
          "listen_addresses = ''\nunix_socket_directories = '" + directory_.string() +
              "'\nfsync = off\nfull_page_writes = off\nshared_buffers = 16MB\n"
              "max_connections = 40\nlc_messages = 'C'\n",
          std::ios::app);
    write("pg_hba.conf", "local guarded all scram-sha-256\nlocal all all trust\n", std::ios::trunc);
    start();
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;
  ~PostgresServer() {
    if (owner_ != ::getpid()) return;  // in a process forked by a test
    if (process_ > 0) stop(SIGQUIT);
    remove_files();
  }

  /// Returns "postgresql://USER@.../DATABASE".
  std::string url(const std::string& database, const std::string& user = "harpe",
                  const std::string& socket_directory = "") const {
    const std::string socket = socket_directory.empty() ? directory_.string() : socket_directory;
    return "postgresql://" + user + "@/" + database + "?host=" + socket;
  }

  /// Creates a database that no test has used. Returns its name.
  std::string new_database() {
    const std::string name = "test_" + std::to_string(++databases_);
    execute("postgres", "CREATE DATABASE " + name);
    return name;
  }

  /// Runs statements as the owner of everything. Returns the first value of the response.
  std::string execute(const std::string& database, const std::string& statement) {
    PostgresSession session(*StoreUrl::parse(url(database)), 20_s);
    if (Status connected = session.connect(); !connected.ok()) fail(connected.error().text());
    const auto rows = session.query(statement.c_str());
    if (!rows.ok()) fail(rows.error().text());
    return rows->size() > 0 ? rows->text(0, 0) : "";
  }

  /// Ends the database's side of every connection, as its operator can.
  void end_all_connections(const std::string& database) {
    execute(
        "postgres",
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname = '" +
            database + "'");
  }

  void start() {
    process_ = begin({program("postgres"), "-D", data()});
    for (int attempt = 0; attempt < 1500; ++attempt) {
      PostgresSession session(*StoreUrl::parse(url("postgres")), 5_s);
      if (session.connect().ok()) return;
      if (::waitpid(process_, nullptr, WNOHANG) == process_) {
        process_ = -1;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    fail("PostgreSQL does not start");
  }

  /// Stops PostgreSQL. SIGINT: orderly; SIGQUIT: at once, as in a crash.
  void stop(int signal) {
    ::kill(process_, signal);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  const std::filesystem::path& directory() const { return directory_; }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    const auto log = read_file(directory_ / "log");
    if (process_ <= 0) remove_files();
    throw std::runtime_error(why + "\n" + (log.ok() ? *log : std::string()));
  }

  void remove_files() const {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  static std::string program(const std::string& name) {
    return "/usr/lib/postgresql/15/bin/" + name;
  }
  std::string data() const { return (directory_ / "data").string(); }

  /// Writes in place, so that the file still belongs to the unprivileged user.
  void write(const std::string& file, const std::string& text, std::ios::openmode mode) const {
    std::ofstream out(data() + "/" + file, std::ios::out | mode);
    if (!(out << text << std::flush)) fail("cannot write " + file);
  }

  /// Starts a program as the unprivileged user.
  pid_t begin(const std::vector<std::string>& arguments) const {
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const std::string log = (directory_ / "log").string();
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::setpgid(0, 0);  // an interrupt at the terminal reaches only the test
    if (user_ != 0 &&
        (::setgroups(0, nullptr) != 0 || ::setgid(group_) != 0 || ::setuid(user_) != 0)) {
      ::_exit(126);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (::chdir(directory_.c_str()) != 0) ::_exit(126);
    if (std::freopen(log.c_str(), "a", stdout) == nullptr || ::dup2(1, 2) < 0) ::_exit(126);
    ::setenv("LC_ALL", "C", 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  void run(const std::vector<std::string>& arguments) const {
    int status = 0;
    const pid_t child = begin(arguments);
    ::waitpid(child, &status, 0);
    if (status != 0) {
      fail(arguments[0] + " fails (scripts/install-dependencies.sh installs PostgreSQL 15)");
    }
  }

  std::filesystem::path directory_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  pid_t owner_ = ::getpid();
  pid_t process_ = -1;
  int databases_ = 0;
};

}  // namespace harpe::training
