/** Test library that runs one plugin alone on the real kernel; published as `svc/testing`. */
export { fake, startPlugin } from './start-plugin.js'
export type { Fake, Rig, StartOptions, TestContext } from './start-plugin.js'
export { lacks, refusal, toolContext } from './tool-context.js'
export type { ToolBench } from './tool-context.js'
export { manualClock } from './manual-clock.js'
export type { ManualClock } from './manual-clock.js'
