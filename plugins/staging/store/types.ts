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
import { StoreError } from '../types.js'
import type { ModelContent } from '../types.js'

export type StartOptions = FromSchema<typeof routes.download.body>

export interface StoreProblem { modelId: string, problem: string }

/** Finds out from its files what a model is. Rejects with a sentence when it cannot. */
export type Derive = (folder: string, about: DeriveOptions) => Promise<ModelCard>

/** Folders of other programs with models; none of them need be there. */
export interface Nearby { hubCaches: readonly string[], ollama: readonly string[] }

export interface StoreOptions {
  root: ModelRoot
  clock: Clock
  /** 0 to 1, for jittered pauses. */
  random: () => number
  /** Null where no public hub may be asked. */
  hub: HubClient | null
  derive: Derive
  freeSpace: FreeSpace
  /** The copies of this node: what ships with svc is offered to the others, too. */
  local: Pick<LocalCopies, 'bundled'>
  /** Asks another node what a model consists of there, and makes that node a source of it. */
  fromNode: (modelId: string, installId: string, signal: AbortSignal) => Promise<
  Pick<ModelContent, 'manifest' | 'digest'> & { source: ChunkSource }
  >
  log: Logger
  nearby: Nearby
  /** Called when a model comes, goes, or its download gets on (at most twice a second for progress). */
  onChange: (modelId: string) => void
  /** Called when a download was given up; not for one that was stopped. */
  onFailed?: (job: Job, failure: Failure) => void
}

export type Source =
  | { kind: 'hub' }
  | { kind: 'file', path: string }
  | { kind: 'node', installId: string }
  | { kind: 'cache' }
  | { kind: 'ollama', name: string }

const INSTALL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/** Reads a source as users write it. Throws StoreError `bad_source`. Pure. */
export function parseSource (text: string): Source {
  if (text === 'hub') return { kind: 'hub' }
  if (text.startsWith('node:') && INSTALL_ID.test(text.slice(5))) {
    return { kind: 'node', installId: text.slice(5) }
  }
  if (text === 'cache') return { kind: 'cache' }
  if (text.startsWith('ollama:')) return { kind: 'ollama', name: text.slice('ollama:'.length) }
  if (text.startsWith('file:///')) {
    try {
      const path = fileURLToPath(text)
      if (!path.includes('\0')) return { kind: 'file', path }
    } catch { /* Bad escapes, or an escaped slash. */ }
  }
  throw new StoreError('bad_source', `${JSON.stringify(text.slice(0, 200))} is no source of models; ` +
    'give hub, file:///absolute/folder, node:<install id>, cache or ollama:NAME')
}
