export { createHubClient } from './client.js'
export { downloadFromHub } from './download.js'
export type { DownloadOptions } from './download.js'
export { inTurn } from './patience.js'
export { HubError } from './errors.js'
export type { HubReason } from './errors.js'
export { selectFiles } from './select.js'
export type {
  HubBody, HubClient, HubClientOptions, HubFile, HubLimits, HubSelection, ResolveOptions, Wanted
} from './types.js'
