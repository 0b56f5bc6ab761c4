/**
 * The files of test/node that `npm test` runs: one scenario with real processes for each promise. The other
 * files there test the same promises with more faults and run in `npm run test:all`.
 */
export const scenarios = {
  'a new user hears the first sound, in every framing and format': 'speak',
  'a runner that dies, hangs or floods costs one error, and is back': 'runners',
  'what ran on a node that dies runs elsewhere': 'instances-lost',
  'a master that dies is followed by another, and no command runs twice': 'cluster-failover',
  'who has a join token joins, and nobody else': 'cluster-join',
  'a model is pulled, staged on the nodes that need it, and removed': 'staging-flow',
  'only who may asks, from where they may': 'access',
  'every wrong call is refused with the reason': 'payload'
}

/** Slow files outside test/node whose promises are also covered by a scenario or a quicker file. */
export const slow = [
  'kernel/test/cli-launcher.test.ts',
  'plugins/cluster/test/control-growth.test.ts',
  'plugins/cluster/test/dev-process.test.ts',
  'kernel/test/plugin-switch-leak.test.ts',
  'plugins/capabilities-tts/test/engine-families.test.ts',
  'plugins/chat/test/guide-help.test.ts',
  'plugins/chat/test/hostile.test.ts',
  'plugins/chat/test/killed.test.ts',
  'plugins/devices/test/growth.test.ts',
  'plugins/event-log/test/store-kill.test.ts',
  'plugins/llama-cpp/test/embedded-runner.test.ts',
  'plugins/placement/test/cluster.test.ts',
  'plugins/placement/test/keeper-properties.test.ts',
  'plugins/relay/test/hostile.test.ts',
  'plugins/relay/test/relayed.test.ts',
  'plugins/runners/test/process-deadlines.test.ts',
  'plugins/runners/test/process-family.test.ts',
  'plugins/runners/test/process-faults.test.ts',
  'plugins/staging/test/cards-headers.test.ts',
  'plugins/staging/test/files-many.test.ts',
  'plugins/staging/test/hub-download.test.ts',
  'plugins/staging/test/links.test.ts',
  'plugins/staging/test/stager-hub.test.ts',
  'plugins/staging/test/store-crash.test.ts',
  'plugins/steward/test/injection.test.ts',
  'test/build.test.ts',
  'test/docs.test.ts',
  'test/run.test.ts',
  'test/sim/sim.test.ts'
]
