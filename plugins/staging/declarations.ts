import type { ErrorDecl, ConflictDecl, EventDecl, CommandDecl, SectionDecl } from '../../kernel/index.js'
import { durableEvent } from '../../kernel/index.js'
import { cardSchema } from '../runners/cards/schema.js'
import { exact, listOf, object, text } from './routes-parts.js'

const final = (status: number, message: string, remedy: string): ErrorDecl =>
  ({ status, retryable: false, message, remedy })
const retry = (status: number, message: string, remedy: string, retryAfterSeconds: number): ErrorDecl =>
  ({ status, retryable: true, message, remedy, retryAfterSeconds })

export const errors = {
  store_not_configured: final(503, 'No node of this cluster has a model store.',
    '`svc pull MODEL` makes the node that it asks the store; for another folder ' +
    '`svc config set model_store.store_path FOLDER` on one node, then restart it.'),
  store_unreachable: retry(503, 'The store host cannot be reached.',
    'Start the node that has it with `svc up` there; `svc nodes` shows which node is lost.', 5),
  model_not_found: final(404, 'No such model is in the store.',
    '`svc ls` lists the models; `svc pull MODEL` brings one.'),
  download_not_found: final(404, 'No such download is known.', '`svc downloads` lists them.'),
  download_running: final(409, 'The model is being downloaded with other options.',
    'Wait for it, or cancel it: `svc downloads cancel MODEL`.'),
  download_failed: final(502, 'The model could not be fetched.', '`svc downloads` shows the cause.'),
  import_refused: final(400, 'The folder cannot be taken into the store.',
    'The message says what is wrong with it.'),
  hub_not_found: final(404, 'The hub has no such model, revision or weights.',
    'Write it as the hub does: org/name, and one of its weights: org/name:VARIANT.'),
  hub_gated: final(403, 'The hub does not give this model to everybody.',
    'Accept its terms on its page, then set SVC_HUB_TOKEN where the store is, and restart that node.'),
  hub_unusable: final(409, 'The model has nothing that runs here.',
    'Look for a conversion of it to GGUF; language models in ONNX do not run.'),
  hub_unavailable: retry(503, 'The hub cannot be asked.', 'Try again in a moment.', 5),
  hub_disabled: final(409, 'This cluster does not fetch from a public hub.',
    'Set model_store.hub.enabled to true on the store host, or pull a folder.'),
  no_safe_fit: final(507, 'The model does not fit on the disk.',
    'Free space, or `svc purge` what is not in use.'),
  model_in_use: final(409, 'The model is in use.',
    'Stop what uses it first; `svc status` shows the instances.'),
  model_bundled: final(409, 'The model ships with svc.',
    'Disable the plugin that brings it to be rid of it.'),
  model_going: retry(503, 'The model is just being removed from this node.', 'Try again.', 1),
  card_exists: final(409, 'That name is taken by a model that is no custom one.', 'Choose another name.'),
  chunk_not_here: retry(409, 'This node has not got that part of the model yet.', 'Ask another source.', 1),
  range_not_satisfiable: final(416, 'The file has no such bytes.', 'Ask for a range within its size.')
} as const satisfies Record<string, ErrorDecl>

export const conflicts = {
  download_failed: {
    severity: 'error',
    meaning: 'The last transfer of a model to this node failed.',
    remediation: 'Make room or mend what it names, then `svc stage MODEL --node NODE`: that clears this.'
  },
  models_not_published: {
    severity: 'warn',
    meaning: 'This node has more models than the other nodes can be shown.',
    remediation: 'Remove models that are not needed: `svc ls`, then `svc rm MODEL` or `svc purge`.'
  },
  second_store: {
    severity: 'warn',
    meaning: 'Another node has a store, too: a cluster uses one, so models of the other are not found.',
    remediation: 'Take model_store.store_path out of svc.yaml on all nodes but one, then restart them.'
  },
  staging_unusable: {
    severity: 'error',
    meaning: 'The folder of staged copies or of the store cannot be used.',
    remediation: 'Make node_cache_path and model_store.store_path writable folders, neither in the other, ' +
      'then restart the node.'
  }
} as const satisfies Record<string, ConflictDecl>

const bytes = { type: 'integer', minimum: 0 } as const
const strings = listOf(text)

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

/** A card as its schema says, or without its files where only what the model is matters. */
const card = { ...cardSchema, required: cardSchema.required.filter((name) => name !== 'files') } as const

export const sections = {
  modelCopies: {
    writer: 'node',
    summary: 'Model id to the complete copy on the node; `ready` while a runner there serves it.',
    value: exact({
      kind: { enum: ['bundled', 'staged', 'cache'] }, digest: text, sizeBytes: bytes,
      ready: { type: 'boolean' }
    })
  },
  storeModels: {
    writer: 'node',
    summary: 'Model id to what the store on the node has of it; the card is without its files.',
    value: {
      type: 'object', additionalProperties: false,
      required: ['digest', 'revision', 'totalBytes', 'source', 'downloadedAt', 'bundled', 'card'],
      properties: {
        digest: text, revision: text, totalBytes: bytes, source: text, downloadedAt: text,
        bundled: { type: 'boolean' }, choice: { type: 'object' }, card
      }
    }
  },
  modelLists: {
    writer: 'node',
    summary: '`rest`: how many models of the node its document has no room for, and the version of their ' +
      'list, which GET /models/rest answers.',
    value: exact({ version: bytes, count: bytes })
  },
  stores: {
    writer: 'master',
    summary: 'Install ids of the store hosts, so that a store that is away is not taken for none.',
    value: exact({ since: text })
  },
  storeHosts: {
    writer: 'node',
    summary: '`store` on a node that is a store host.',
    value: exact({ since: text })
  },
  homeCards: {
    writer: 'node',
    summary: 'Model id to a card in the folder `cards` of the node\'s home, without its files.',
    value: card
  },
  customCards: {
    writer: 'master',
    summary: 'Model id to a card that was added over the API.',
    value: card
  }
} as const satisfies Record<string, SectionDecl>

export const commands = {
  setStore: {
    summary: 'Notes that a node is a store host, or is none any more.',
    args: exact({ installId: text, is: { type: 'boolean' } }), result: object({ is: { type: 'boolean' } })
  },
  claimStore: {
    summary: 'Makes a node the store host where there is none; says which node it is.',
    args: exact({ installId: text }), result: object({ host: text })
  },
  addCard: {
    summary: 'Adds a custom card, or replaces it.',
    args: exact({ card }), result: object({ modelId: text })
  },
  removeCard: {
    summary: 'Removes a custom card; nothing happens when it is gone.',
    args: exact({ modelId: text }), result: object({ removed: { type: 'boolean' } })
  }
} as const satisfies Record<string, CommandDecl>
