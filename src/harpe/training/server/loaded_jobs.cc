#include "harpe/training/server/loaded_jobs.h"

#include <utility>

namespace harpe::training {

void LoadedJobs::add(const HostedPtr& hosted) {
  hosted->used = services_.clock.now();
  services_.table.add(hosted);
  follow(hosted);
}

void LoadedJobs::wake(const HostedPtr& hosted) {
  hosted->used = services_.clock.now();
  if (!hosted->asleep()) return;
  hosted->go_on(services_.time.now());
  follow(hosted);
}

void LoadedJobs::save(const HostedPtr& hosted) {
  hosted->touched = false;
  services_.saver.changed(hosted);
}

void LoadedJobs::refresh_summary(const Hosted& hosted) {
  if (!hosted.asleep()) services_.saver.refresh(hosted.summary(), hosted.claim.epoch);
}

void LoadedJobs::drop(const HostedPtr& hosted, const Status& why) {
  hosted->leave();
  services_.table.erase(hosted);
  JobSaver::give_up(*hosted, why);
  hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void LoadedJobs::follow(const HostedPtr& hosted) {
  services_.table.measure(*hosted);
  HostedEffects effects = hosted->take_effects(services_.time.now());
  const bool is_news = effects.changed || !effects.events.empty();
  for (HostedEffects::Event& one : effects.events) {
    if (one.kind == "warning") services_.log("job " + hosted->id + ": " + one.text);
    job_log_.add(hosted, std::move(one));
  }
  if (effects.save) save(hosted);
  if (is_news) hosted->listeners.for_each([](JobListener& listener) { listener.changed(); });
}

void LoadedJobs::tick() {
  const auto all = services_.table.loaded();  // a tick may end one
  for (const auto& [id, hosted] : all) tick(hosted);
}

void LoadedJobs::tick(const HostedPtr& hosted) {
  if (hosted->listeners.interest() == JobListener::Interest::kTakesPart)
    hosted->hear(services_.time.now());
  if (!hosted->asleep() && services_.activities.of(*hosted) == Activity::kActive) {
    hosted->tick(services_.time.now());
    follow(hosted);
  } else {
    hosted->rest();
  }
  hosted->listeners.for_each([](JobListener& listener) { listener.ticked(); });
}

}  // namespace harpe::training
