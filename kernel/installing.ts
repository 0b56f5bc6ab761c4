/** For `plugins/packages` alone, whose verbs change the plugins of a home; no node runs any of it. */
export { takeLock } from './boot/home.js'
export {
  changeSetting, disabledIn, findPlugin, installationOf, nodeRuns, restartHint, sectionsIn, printEffect, turn
} from './cli/installed.js'
export type { Effect } from './cli/installed.js'
export { declares } from './cli/verbs/plugins.js'
export { findConfig, saveConfigFile } from './config/file.js'
export type { Installation } from './plugins/installation.js'
export { loadPlugins } from './plugins/load.js'
export {
  faultOf, folderOf, hashFolder, linkSvc, packagesFolder, readRecord, recordPath
} from './plugins/packages.js'
export type { PackageRecord } from './plugins/packages.js'
