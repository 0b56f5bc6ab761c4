import type { ErrorDecl, ConflictDecl, EventDecl, CommandDecl, SectionDecl } from '../../kernel/index.js'
import { closedObject, durableEvent, openObject } from '../../kernel/index.js'
import { cardSchema } from '../runners/cards/schema.js'
import { listOf, text } from './routes-parts.js'

const final = (status: number, message: string, remedy: string): ErrorDecl =>
  ({ status, retryable: false, message, remedy })
const retry = (status: number, message: string, remedy: string, retryAfterSeconds: number): ErrorDecl =>
  ({ status, retryable: true, message, remedy, retryAfterSeconds })

export const errors = {
  store_not_configured: final(503, 'No node of this cluster has a model store.',
    'Run `svc pull MODEL` on a node to make it the store host; for another folder, run ' +
    '`svc config set model_store.store_path FOLDER` on one node, then restart it.'),
  store_unreachable: retry(503, 'The store host cannot be reached.',
    'Run `svc up` on the store host; `svc nodes` shows which node is lost.', 5),
  model_not_found: final(404, 'The store has no such model.',
    '`svc ls` lists the models; `svc pull MODEL` adds one.'),
  download_not_found: final(404, 'There is no such download.', '`svc downloads` lists the downloads.'),
  download_running: final(409, 'A download of the model with other options is in progress.',
    'Wait for it, or run `svc downloads cancel MODEL`.'),
  download_failed: final(502, 'The model could not be downloaded.', '`svc downloads` shows the cause.'),
  import_refused: final(400, 'The folder cannot be imported into the store.',
    'Fix the problem that the message names.'),
  hub_not_found: final(404, 'The hub has no such model, revision or weights.',
    'Use the name on the hub: org/name, or org/name:VARIANT for certain weights.'),
  hub_gated: final(403, 'The hub restricts access to this model.',
    'Accept the terms on the model\'s page, then set SVC_HUB_TOKEN on the store host and restart it.'),
  hub_unusable: final(409, 'The model has no supported format.',
    'Find a GGUF conversion of it; ONNX language models are not supported.'),
  hub_unavailable: retry(503, 'The hub cannot be reached.', 'Retry in a moment.', 5),
  hub_disabled: final(409, 'Downloads from the public hub are disabled.',
    'Set model_store.hub.enabled to true on the store host, or pull a folder.'),
  no_safe_fit: final(507, 'The model does not fit on the disk.',
    'Free disk space: `svc purge` removes unused staged copies.'),
  model_in_use: final(409, 'The model is in use.',
    'Stop the instances that use it; `svc status` lists them.'),
  model_bundled: final(409, 'The model ships with svc.',
    'To remove it, disable the plugin that provides it.'),
  model_going: retry(503, 'The model is being removed from this node.', 'Retry.', 1),
  card_exists: final(409, 'A model that is not custom already has this name.', 'Choose another name.'),
  chunk_not_here: retry(409, 'This node does not have that part of the model yet.', 'Use another source.', 1),
  range_not_satisfiable: final(416, 'The range is outside the file.', 'Request a range within its size.')
} as const satisfies Record<string, ErrorDecl>

export const conflicts = {
  download_failed: {
    severity: 'error', meaning: 'The last transfer of a model to this node failed.',
    remediation: 'Fix the cause that the message names, then run `svc stage MODEL --node NODE`.'
  },
  models_not_published: {
    severity: 'warn', meaning: 'This node has more models than it can publish to the other nodes.',
    remediation: 'Remove unneeded models: `svc ls`, then `svc rm MODEL` or `svc purge`.'
  },
  second_store: {
    severity: 'warn',
    meaning: 'Another node has a store too. The cluster uses only one, so models in the other are missing.',
    remediation: 'Remove model_store.store_path from svc.yaml on all nodes but one, then restart them.'
  },
  staging_unusable: {
    severity: 'error', meaning: 'The folder of staged copies or of the store is unusable.',
    remediation: 'Set node_cache_path and model_store.store_path to separate writable folders, ' +
      'then restart the node.'
  }
} as const satisfies Record<string, ConflictDecl>

const bytes = { type: 'integer', minimum: 0 } as const
const strings = listOf(text)

/** Durable events about models on disk. Progress has no events, because they would fill the log. */
export const events = {
  NodeDownloadProgress: durableEvent(
    'A transfer to a node was requested (`pending`) or is complete (`completed`).',
    {
      nodeId: text, modelId: text, attemptId: text, totalBytes: bytes,
      status: { enum: ['pending', 'completed'] }
    }
  ),
  DownloadFailed: durableEvent('A transfer was refused at its start, or failed.', {
    nodeId: text, modelId: text, attemptId: text, reason: text, errorMessage: text
  }),
  StagedModelEvicted: durableEvent('A staged copy was evicted to free disk space.', {
    nodeId: text, modelId: text, freedBytes: bytes,
    trigger: { enum: ['deactivation', 'startup', 'capacity', 'store_delete'] }
  }),
  StagingPurged: durableEvent('An operator purged the staged copies of a node.', {
    nodeId: text, removed: strings, skippedInUse: strings, freedBytes: bytes
  }),
  ModelStored: durableEvent('The store has a new model or a new version of a model.', {
    nodeId: text, modelId: text, revision: text, totalBytes: bytes
  }),
  ModelDeleted: durableEvent('A model was deleted from the store.', { nodeId: text, modelId: text })
} as const satisfies Record<string, EventDecl>

/** The card schema with optional files, for sections that leave the files out. */
const card = { ...cardSchema, required: cardSchema.required.filter((name) => name !== 'files') } as const

export const sections = {
  modelCopies: {
    writer: 'node',
    summary: 'The complete copies on the node by model id; `ready` while a runner serves the model.',
    value: closedObject({
      kind: { enum: ['bundled', 'staged', 'cache'] }, digest: text, sizeBytes: bytes,
      ready: { type: 'boolean' }
    })
  },
  storeModels: {
    writer: 'node', summary: 'The models in the node\'s store by model id; cards are without their files.',
    value: closedObject({
      digest: text, revision: text, totalBytes: bytes, source: text, downloadedAt: text,
      bundled: { type: 'boolean' }, choice: { type: 'object' }, card
    }, ['digest', 'revision', 'totalBytes', 'source', 'downloadedAt', 'bundled', 'card'])
  },
  modelLists: {
    writer: 'node',
    summary: '`rest`: the number of models that do not fit in the node\'s document, and the version of ' +
      'their list in GET /models/rest.',
    value: closedObject({ version: bytes, count: bytes })
  },
  stores: {
    writer: 'master',
    summary: 'Install ids of the store hosts, so that the cluster remembers a store that is down.',
    value: closedObject({ since: text })
  },
  storeHosts: {
    writer: 'node', summary: '`store` if the node is a store host.', value: closedObject({ since: text })
  },
  customCards: { writer: 'master', summary: 'Cards added over the API by model id.', value: card }
} as const satisfies Record<string, SectionDecl>

export const commands = {
  setStore: {
    summary: 'Records whether a node is a store host.',
    args: closedObject({ installId: text, is: { type: 'boolean' } }),
    result: openObject({ is: { type: 'boolean' } })
  },
  claimStore: {
    summary: 'Makes a node the store host if there is none; returns the store host.',
    args: closedObject({ installId: text }), result: openObject({ host: text })
  },
  addCard: {
    summary: 'Adds or replaces a custom card.',
    args: closedObject({ card }), result: openObject({ modelId: text })
  },
  removeCard: {
    summary: 'Removes a custom card, if it exists.',
    args: closedObject({ modelId: text }), result: openObject({ removed: { type: 'boolean' } })
  }
} as const satisfies Record<string, CommandDecl>
