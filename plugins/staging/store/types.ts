import { fileURLToPath } from 'node:url'
import type { Clock, FromSchema, Logger, ModelCard } from '../../../kernel/index.js'
import type { DeriveOptions } from '../cards/found.js'
import type { routes } from '../routes.js'
import type { ModelRoot } from '../files/root.js'
import type { HubClient } from '../hub/client.js'
import type { FreeSpace } from '../space/free-space.js'
import type { LocalCopies } from '../staged/local-copies.js'
import type { Failure, Job } from '../transfer/job.js'
import type { ChunkSource } from '../transfer/types.js'
import { StoreError, type ModelContent } from '../types.js'

export type StartOptions = FromSchema<typeof routes.download.body>

export interface StoreProblem { modelId: string, problem: string }

/** Derives a model's card from its files. Rejects with an Error whose message is a sentence. */
export type Derive = (folder: string, about: DeriveOptions) => Promise<ModelCard>

export interface StoreOptions {
  root: ModelRoot, clock: Clock
  /** Random number from 0 to 1, for jittered pauses. */
  random: () => number
  /** Hub client; null if the hub is disabled. */
  hub: HubClient | null
  derive: Derive, freeSpace: FreeSpace
  /** Bundled models are offered to other nodes too. */
  local: Pick<LocalCopies, 'bundled'>
  /** The manifest of a model on another node, and that node as a chunk source. */
  fromNode: (modelId: string, installId: string, signal: AbortSignal) => Promise<
  Pick<ModelContent, 'manifest' | 'digest'> & { source: ChunkSource }
  >
  log: Logger
  /** Cache folder of the hub's own tools, which may be missing. */
  hubCache: string | null
  /** Called when a model is added or removed, and for download progress (at most twice a second). */
  onChange: (modelId: string) => void
  /** Called for failed downloads, but not for stopped ones. */
  onFailed?: (job: Job, failure: Failure) => void
}

export type Source =
  | { kind: 'hub' }
  | { kind: 'file', path: string }
  | { kind: 'node', installId: string }

const INSTALL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/** Parses a source. Throws StoreError `bad_source`. Pure. */
export function parseSource (text: string): Source {
  if (text === 'hub') return { kind: 'hub' }
  if (text.startsWith('node:') && INSTALL_ID.test(text.slice(5))) {
    return { kind: 'node', installId: text.slice(5) }
  }
  if (text.startsWith('file:///')) {
    try {
      const path = fileURLToPath(text)
      if (!path.includes('\0')) return { kind: 'file', path }
    } catch { /* URL with bad escapes or an escaped slash. */ }
  }
  throw new StoreError('bad_source', `${JSON.stringify(text.slice(0, 200))} is not a model source; ` +
    'use hub, file:///absolute/folder or node:<install id>')
}
