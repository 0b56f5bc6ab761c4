export { createHubClient } from './client.js'
export { downloadFromHub, inTurn } from './download.js'
export type { DownloadOptions } from './download.js'
export { HubError } from './errors.js'
export type { HubReason } from './errors.js'
export { selectFiles } from './select.js'
export type {
  HubClient, HubClientOptions, HubFile, HubLimits, HubSelection, ResolveOptions, Wanted
} from './types.js'
