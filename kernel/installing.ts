/** Kernel exports for `plugins/packages` only, whose verbs change a home's plugins; nodes do not use them. */
export { failuresOf } from './cli/contributed.js'
export { prepareHome, takeLock } from './boot/home.js'
export {
  changeSetting, disabledIn, findPlugin, installationOf, nodeRuns, restartHint, sectionsIn, printEffect, turn
} from './cli/installed.js'
export type { SwitchEffect } from './cli/installed.js'
export { asksFor } from './cli/verbs/plugins.js'
export { findConfig, saveConfigFile } from './config/file.js'
export { neededBy } from './plugins/graph.js'
export type { Installation } from './plugins/installation.js'
export { kernelManifest } from './plugins/kernel-manifest.js'
export { loadPlugins } from './plugins/load.js'
export {
  faultOf, folderOf, hashFolder, linkSvc, packagesFolder, readRecord, recordPath
} from './plugins/packages.js'
export type { PackageRecord } from './plugins/packages.js'
