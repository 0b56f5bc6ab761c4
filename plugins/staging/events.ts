import { durableEvent } from '../../kernel/index.js'
import type { EventDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const bytes = { type: 'integer', minimum: 0 } as const
const strings = { type: 'array', items: text } as const

/** Durable events about models on disk. Progress goes another way: it would fill the log. */
export const events = {
  NodeDownloadProgress: durableEvent(
    'A transfer to a node was asked for (`pending`) or is whole (`completed`).',
    {
      nodeId: text, modelId: text, attemptId: text, totalBytes: bytes,
      status: { enum: ['pending', 'completed'] }
    }
  ),
  DownloadFailed: durableEvent('A transfer was refused before its first byte, or given up.', {
    nodeId: text, modelId: text, attemptId: text, reason: text, errorMessage: text
  }),
  StagedModelEvicted: durableEvent('A staged copy was removed to keep the disk from filling.', {
    nodeId: text, modelId: text, freedBytes: bytes,
    trigger: { enum: ['deactivation', 'startup', 'capacity', 'store_delete'] }
  }),
  StagingPurged: durableEvent('An operator had the staged copies of a node removed.', {
    nodeId: text, removed: strings, skippedInUse: strings, freedBytes: bytes
  }),
  ModelStored: durableEvent('The store has a new model, or a new version of one.', {
    nodeId: text, modelId: text, revision: text, totalBytes: bytes
  }),
  ModelDeleted: durableEvent('A model was deleted from the store.', { nodeId: text, modelId: text })
} as const satisfies Record<string, EventDecl>
