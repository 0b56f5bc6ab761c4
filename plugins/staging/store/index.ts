export { StoreError } from './errors.js'
export { RateMeter } from './rate.js'
export { openStore, Store } from './store.js'
export type {
  Admit, Derive, DownloadStatus, FromNode, Job, StartOptions, StoreEntry, StoreOptions,
  StoreProblem
} from './types.js'
export { hashTree } from './tree.js'
