import { cardSchema } from '../runners/cards/schema.js'
import { eitherFailure } from './failures.js'
import { listOf, modelId, modelParam, storeErrors, text } from './routes-parts.js'
import { closedObject, openObject, type FromSchema, type RouteDecl } from '../../kernel/index.js'

/** A closed object, with its keys in the order that openapi.json has here. */
const exact = <const P extends Record<string, unknown>>(properties: P) =>
  ({ additionalProperties: false, ...openObject(properties) }) as const
const bytes = { type: 'integer', minimum: 0 } as const
const nullable = { type: ['string', 'null'] } as const
const nodeRefs = {
  type: 'array', uniqueItems: true, maxItems: 256, items: { type: 'string', minLength: 1, maxLength: 128 }
} as const

const downloadStatus = openObject({
  modelId: text,
  status: { enum: ['pending', 'downloading', 'paused', 'complete', 'failed', 'cancelled', 'not_found'] },
  progress: { type: 'number', minimum: 0, maximum: 1 }, error: nullable
})
const wholeStatus = {
  ...downloadStatus,
  properties: {
    ...downloadStatus.properties, reason: { ...nullable, description: 'reason of a failure, one word' },
    downloadedBytes: bytes, totalBytes: { ...bytes, description: '0 until it is known' },
    bytesPerSecond: { ...bytes, description: 'over the last 10 seconds' },
    etaMs: { type: ['integer', 'null'] },
    source: { ...nullable, description: '`hub`, `file:…`, `node:INSTALL_ID`' },
    revision: { ...nullable, description: 'the commit once it is known, before that the requested revision' },
    startedAt: nullable
  }
} as const

const purged = exact({
  nodeId: text, removed: listOf(text), skippedInUse: listOf(text), freedBytes: bytes, error: nullable
})
const purgeResult = {
  ...purged,
  properties: {
    ...purged.properties,
    copies: {
      description: 'only with dry_run; least recently used first',
      ...listOf(exact({
        modelId: text, sizeBytes: bytes,
        freeableBytes: { ...bytes, description: 'bytes that a removal frees; hard links count 0' },
        lastUsedEpochSeconds: bytes, inUse: { type: 'boolean' },
        overBudget: { type: 'boolean', description: 'idle and beyond staging_keep_recent_gb: evicted next' }
      }))
    }
  }
} as const

const dryRun = {
  type: 'boolean',
  description: 'true: removes nothing; the answer shows the effect of a purge, and each node\'s copies in ' +
    'the order of eviction'
} as const

const from = {
  enum: ['store', 'self'], description: '`self`: the copy of this node, even an incomplete one'
} as const

const digest = {
  type: 'string', pattern: '^[0-9a-f]{64}$',
  description: 'digest of the wanted version, if there may be several'
} as const

const flag = { type: 'boolean' } as const
const copyList = listOf(openObject({
  modelId: text, nodeId: text, nodeName: text, live: flag, sizeBytes: bytes, digest: text,
  kind: { enum: ['store', 'bundled', 'staged', 'cache', 'receiving'] }
}))
/** Schema of a model. Anthropic's format requires only `id`; OpenAI's also has svc's own fields. */
const entry = openObject({
  id: text, root: text, object: text, created: { type: 'integer' }, owned_by: text, name: text,
  description: text, installed: flag, ready: flag, virtual: flag, tasks: listOf(text),
  context_length: { type: 'integer' }, storage_size_megabytes: { type: 'integer' }, family: text,
  quantization: nullable, remedy: nullable,
  resolved_capabilities: { type: 'object', additionalProperties: flag },
  audio: {
    ...openObject({ voices: listOf(openObject({ id: text, name: text })), default_voice: nullable }),
    type: ['object', 'null']
  }
}, ['id'])

/** Query parameter that Anthropic's clients send and svc ignores. */
const beta = { beta: text } as const

const modelList = exact({ object: { const: 'list' }, data: listOf(entry) })

const downloadBody = closedObject({
  source: {
    type: 'string', minLength: 1, maxLength: 4096,
    description: '`hub` (the default); `node:REF` for the copy of another node; for operators only ' +
      '`file:///PATH` of a folder, or of a .gguf or .onnx file, on the node that receives the request ' +
      '(with its operator.token, or below one of its model_store.import_roots)'
  },
  revision: { type: 'string', minLength: 1, maxLength: 256, pattern: '^[A-Za-z0-9][A-Za-z0-9._/-]*$' },
  allow: { type: 'array', maxItems: 64, items: { type: 'string', minLength: 1, maxLength: 256 } },
  variant: { type: 'string', minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9._-]+$' }
}, [])

export const routes = {
  storage: {
    method: 'GET', url: '/store/storage', authority: 'read',
    summary: 'Disk use of this node: staged models, event log, free space.',
    reply: exact({
      nodeId: text, stagingRoot: nullable,
      stagedModels: listOf(openObject({
        modelId: text, directory: nullable, sizeBytes: bytes, lastUsedEpochSeconds: { type: 'number' },
        inUse: { type: 'boolean' }, in_use: { type: 'boolean' }
      })),
      stagedTotalBytes: bytes,
      // Bytes of incomplete transfers.
      partialBytes: bytes,
      eventLogBytes: bytes,
      // Null if the event-log plugin is off.
      eventLogMode: { enum: ['normal', 'counting-only', 'memory', null] }, diskTotalBytes: bytes,
      diskFreeBytes: bytes
    })
  },
  health: {
    method: 'GET', url: '/store/health', members: true, authority: 'read',
    summary: 'The folder of the store and its free disk space.',
    reply: exact({ storePath: nullable, freeBytes: bytes, totalBytes: bytes, usedBytes: bytes }),
    errors: storeErrors
  },
  registry: {
    method: 'GET', url: '/store/registry', members: true, authority: 'read',
    summary: 'Every model in the store, and which nodes have a copy.',
    reply: openObject({ entries: { type: 'array' } }), errors: storeErrors
  },
  downloads: {
    method: 'GET', url: '/store/downloads', members: true, authority: 'read',
    summary: 'Downloads into the store, including ended ones.',
    reply: openObject({ downloads: listOf(wholeStatus) }), errors: storeErrors
  },
  download: {
    method: 'POST', url: '/store/models/:model_id/download', members: true, authority: 'cluster:write',
    summary: 'Starts a download into the store, or resumes a paused or cancelled one; without a store, the ' +
      'node that receives the request becomes the store host (operators only).',
    params: modelParam,
    body: downloadBody,
    reply: {
      ...wholeStatus,
      properties: {
        ...wholeStatus.properties,
        storeMade: { type: 'string', description: 'the folder, if this made the node the store host' }
      }
    },
    deadlineMs: 600_000,
    errors: [...storeErrors, 'download_running', 'import_refused', 'hub_disabled', 'missing_grant']
  },
  plan: {
    method: 'GET', url: '/store/models/:model_id/download/plan', members: true, authority: 'cluster:write',
    summary: 'The files of a download, and whether they fit in the store and in memory; downloads ' +
      'nothing.',
    params: modelParam,
    query: closedObject({
      ...downloadBody.properties,
      source: {
        type: 'string', pattern: '^(hub|file:///.+)$', maxLength: 4096,
        description: 'default: `hub`'
      }
    }, []),
    reply: exact({
      modelId: text, hub: { ...text, description: 'address of the hub, or the name of the local source' },
      commit: text, files: { type: 'integer', minimum: 1 }, totalBytes: bytes,
      variant: { ...nullable, description: 'the weights to download' },
      engine: { enum: ['gguf', 'onnx', null] }, weightsBytes: bytes,
      variants: {
        description: 'all weights of the model, smallest first',
        ...listOf(exact({
          name: text, bytes, fits: { type: ['boolean', 'null'], description: 'in memory; null: unknown' }
        }))
      },
      disk: { description: 'of the store host, or of the node that would become it',
        ...exact({ node: text, roomBytes: bytes, problem: nullable }) },
      memory: {
        description: 'of the cluster, for the model without its context; null: unknown',
        ...exact({
          neededBytes: bytes, nodes: listOf(exact({ name: text, neededBytes: bytes, usableBytes: bytes })),
          problem: nullable, engineMissing: nullable
        }),
        type: ['object', 'null']
      }
    }),
    errors: [
      'missing_grant', 'import_refused', 'hub_disabled', 'hub_not_found', 'hub_gated', 'hub_unusable',
      'hub_unavailable', 'store_unreachable'
    ]
  },
  searchHub: {
    method: 'GET', url: '/store/search', members: true, authority: 'cluster:write',
    summary: 'Searches the public hub by model name; runnable formats come first.',
    query: closedObject({
      query: { type: 'string', minLength: 1, maxLength: 200, pattern: '\\S' },
      limit: {
        type: 'integer', minimum: 1, maximum: 100, default: 20,
        description: 'at most this many of each format'
      }
    }, ['query']),
    reply: exact({
      hub: text, query: text,
      models: listOf(exact({
        modelId: text,
        engine: { enum: ['gguf', 'onnx', null], description: 'the runnable format; null if there is none' },
        task: { ...nullable, description: 'the task according to the hub, such as `text-generation`' },
        downloads: { type: ['integer', 'null'] }, likes: { type: ['integer', 'null'] }, updatedAt: nullable,
        gated: { type: 'boolean', description: 'the user must accept its terms on the hub first' },
        here: { type: 'boolean', description: 'whether the cluster already has it' }
      }))
    }),
    errors: ['invalid_request', 'hub_disabled', 'hub_gated', 'hub_unavailable', 'store_unreachable']
  },
  downloadState: {
    method: 'GET', url: '/store/models/:model_id/download/status', members: true, authority: 'read',
    summary: 'Progress of the download of a model.',
    params: modelParam, reply: wholeStatus, errors: storeErrors
  },
  pause: {
    method: 'POST', url: '/store/models/:model_id/download/pause', members: true, authority: 'cluster:write',
    summary: 'Pauses a download, even across restarts of the node; downloaded bytes are kept.',
    params: modelParam, reply: wholeStatus, errors: [...storeErrors, 'download_not_found']
  },
  cancelDownload: {
    method: 'DELETE', url: '/store/models/:model_id/download', members: true, authority: 'cluster:write',
    audit: 'best-effort', summary: 'Cancels a download; downloaded bytes are kept for the next one.',
    params: modelParam, reply: wholeStatus, errors: [...storeErrors, 'download_not_found']
  },
  stage: {
    method: 'POST', url: '/store/models/:model_id/stage', members: true, authority: 'cluster:write',
    summary: 'Copies a model from the store to nodes; with `wait`, responds when the copies are complete.',
    params: modelParam,
    body: closedObject({
      nodeIds: nodeRefs, node_ids: nodeRefs, wait: { type: 'boolean' },
      timeout_seconds: { type: 'integer', minimum: 1, maximum: 86_400 }
    }, []),
    reply: exact({
      commandId: text, message: text,
      nodes: listOf(openObject({
        nodeId: text, status: { enum: ['pending', 'downloading', 'complete', 'failed'] }, error: nullable
      }))
    }),
    deadlineMs: 86_430_000,
    errors: ['node_not_found', 'model_not_found', ...storeErrors]
  },
  room: {
    method: 'GET', url: '/store/models/:model_id/room', members: true, authority: 'read',
    summary: 'Whether copies of a model fit on the disk of this node; copies nothing.', params: modelParam,
    reply: exact({ problem: nullable })
  },
  purge: {
    method: 'POST', url: '/store/purge-staging', members: true, authority: 'cluster:write',
    audit: 'best-effort', summary: 'Removes unused staged copies from every node: of all models, or of one.',
    body: closedObject({ modelId, model_id: modelId, dryRun, dry_run: dryRun }, []),
    reply: exact({ commandId: text, message: text, nodes: listOf(purgeResult) }), errors: ['invalid_request']
  },
  remove: {
    method: 'DELETE', url: '/store/models/:model_id', members: true, authority: 'cluster:write',
    audit: 'best-effort', summary: 'Deletes a model from the store, and its unused staged copies.',
    params: modelParam, reply: openObject({ modelId: text, deleted: { const: true } }),
    errors: [...storeErrors, 'model_not_found', 'model_bundled']
  },
  manifest: {
    method: 'GET', url: '/store/models/:model_id/manifest', members: true, authority: 'read',
    summary: 'Every file of a model with its size and the hashes of its chunks.', params: modelParam,
    query: closedObject({ from, digest }, []),
    reply: openObject({
      modelId: text, revision: text, totalBytes: bytes, chunkBytes: bytes, files: { type: 'array' }
    }),
    errors: [...storeErrors, 'model_not_found']
  },
  file: {
    method: 'GET', url: '/store/models/:model_id/files/*', members: true, authority: 'read', stream: true,
    summary: 'The bytes of a file. Supports a single Range; the ETag is the SHA-256.',
    params: openObject({ 'model_id': { type: 'string', minLength: 1 }, '*': text }),
    query: closedObject({ from, digest }, []), produces: 'application/octet-stream',
    errors: [...storeErrors, 'model_not_found', 'range_not_satisfiable', 'chunk_not_here']
  },
  models: {
    method: 'GET', url: '/v1/models', also: ['/ollama/v1/models'], authority: 'read', failure: eitherFailure,
    idHeader: 'request-id',
    summary: 'Models and their aliases; in Anthropic\'s format for its clients.',
    query: {
      type: 'object', additionalProperties: false,
      description: 'only for Anthropic clients, which send the header anthropic-version',
      properties: {
        ...beta, limit: { type: 'integer', minimum: 1, maximum: 1000 }, after_id: text, before_id: text
      }
    },
    reply: openObject({ object: { const: 'list' }, data: listOf(entry) }, ['data'])
  },
  model: {
    method: 'GET', url: '/v1/models/:model_id', authority: 'read',
    failure: eitherFailure, idHeader: 'request-id',
    summary: 'A model of the catalogue, as in the list.', params: modelParam, query: closedObject(beta, []),
    reply: entry, errors: ['model_not_found']
  },
  modelsShort: {
    method: 'GET', url: '/models', authority: 'read',
    summary: 'The catalogue, with the models that are installed and ready.', reply: modelList
  },
  copies: {
    method: 'GET', url: '/models/copies', authority: 'read',
    summary: 'The copies of all models in the cluster; `silent_store`: the store host if it cannot be ' +
      'reached.',
    reply: openObject({ copies: copyList, silent_store: { type: ['string', 'null'] } })
  },
  rest: {
    method: 'GET', url: '/models/rest', members: true, authority: 'read',
    summary: 'The models of this node that do not fit in its document, for other nodes.',
    reply: openObject({ version: { type: 'integer' }, rest: { type: 'object' } })
  },
  card: {
    method: 'GET', url: '/models/:model_id/card', members: true, authority: 'read',
    summary: 'The card of a model, its origin and the copies of the model.', params: modelParam,
    reply: openObject({ model_id: text, origin: text, card: cardSchema, copies: copyList }),
    errors: ['model_not_found']
  },
  add: {
    method: 'POST', url: '/models/add', authority: 'cluster:write',
    summary: 'Adds a custom card, or downloads a model and derives its card from its files.',
    body: {
      type: 'object', additionalProperties: false, minProperties: 1, maxProperties: 1,
      properties: { card: { type: 'object' }, source: modelId }
    },
    reply: openObject({ model_id: text, card: { type: ['object', 'null'] } }),
    errors: ['invalid_request', 'card_exists', ...storeErrors, 'hub_disabled', 'missing_grant']
  },
  removeCustom: {
    method: 'DELETE', url: '/models/custom/:model_id', authority: 'cluster:write', audit: 'best-effort',
    summary: 'Removes a custom card.', params: modelParam,
    reply: openObject({ model_id: text, deleted: { const: true } }),
    errors: ['model_not_found', 'model_in_use']
  }
} as const satisfies Record<string, RouteDecl>

export type Answers = {
  [K in keyof typeof routes]: (typeof routes)[K] extends { reply: infer R } ? FromSchema<R> : never
}
