import { add, card, copies, list, modelsShort, one, removeCustom } from './routes-models.js'
import { modelId, modelParam, object, storeErrors, text } from './routes-parts.js'
import type { RouteDecl } from '../../kernel/index.js'

const bytes = { type: 'integer', minimum: 0 } as const
const nullable = { type: ['string', 'null'] } as const
const nodeRefs = {
  type: 'array', uniqueItems: true, maxItems: 256, items: { type: 'string', minLength: 1, maxLength: 128 }
} as const

const storage = {
  method: 'GET', url: '/store/storage', authority: 'read',
  summary: 'What this node keeps on disk: staged models, event log, free space.',
  reply: {
    type: 'object', additionalProperties: false,
    required: [
      'nodeId', 'stagingRoot', 'stagedModels', 'stagedTotalBytes', 'partialBytes', 'eventLogBytes',
      'eventLogMode', 'diskTotalBytes', 'diskFreeBytes'
    ],
    properties: {
      nodeId: text,
      stagingRoot: nullable,
      stagedTotalBytes: bytes,
      // Of transfers that are not complete.
      partialBytes: bytes,
      eventLogBytes: bytes,
      // Null where the plugin event-log is off.
      eventLogMode: { enum: ['normal', 'counting-only', 'memory', null] },
      diskTotalBytes: bytes,
      diskFreeBytes: bytes,
      stagedModels: {
        type: 'array',
        items: object({
          modelId: text, directory: nullable, sizeBytes: bytes, lastUsedEpochSeconds: { type: 'number' },
          inUse: { type: 'boolean' }, in_use: { type: 'boolean' }
        })
      }
    }
  }
} as const satisfies RouteDecl

const health = {
  method: 'GET', url: '/store/health', members: true, authority: 'read',
  summary: 'Where the store is and what room it has.',
  reply: {
    type: 'object', additionalProperties: false,
    required: ['storePath', 'freeBytes', 'totalBytes', 'usedBytes'],
    properties: { storePath: nullable, freeBytes: bytes, totalBytes: bytes, usedBytes: bytes }
  },
  errors: ['store_not_configured', 'store_unreachable']
} as const satisfies RouteDecl

const registry = {
  method: 'GET', url: '/store/registry', members: true, authority: 'read',
  summary: 'Every model in the store, and which nodes have a copy.',
  reply: { type: 'object', required: ['entries'], properties: { entries: { type: 'array' } } },
  errors: ['store_not_configured', 'store_unreachable']
} as const satisfies RouteDecl

const downloadStatus = {
  type: 'object',
  required: ['modelId', 'status', 'progress', 'error'],
  properties: {
    modelId: text, progress: { type: 'number', minimum: 0, maximum: 1 }, error: nullable,
    status: {
      enum: ['pending', 'downloading', 'paused', 'complete', 'failed', 'cancelled', 'not_found']
    }
  }
} as const

const downloads = {
  method: 'GET', url: '/store/downloads', members: true, authority: 'read',
  summary: 'Downloads into the store, those that ended included.',
  reply: {
    type: 'object', required: ['downloads'],
    properties: { downloads: { type: 'array', items: downloadStatus } }
  },
  errors: storeErrors
} as const satisfies RouteDecl

const download = {
  method: 'POST', url: '/store/models/:model_id/download', members: true, authority: 'cluster:write',
  summary: 'Starts a download into the store, or goes on with one that was paused or cancelled; without a ' +
    'store the node that is asked becomes it (operator only).',
  params: modelParam,
  body: {
    type: 'object', additionalProperties: false,
    properties: {
      source: {
        type: 'string', minLength: 1, maxLength: 4096,
        description: '`hub` (the default); `node:REF` for the copy of another node; for the operator only ' +
          '`file:///folder` on the node that is asked (with its operator.token, or below one of its ' +
          'model_store.import_roots), and on the node of the store `cache` (the cache of the hub\'s own ' +
          'programs) or `ollama:NAME:TAG`'
      },
      revision: { type: 'string', minLength: 1, maxLength: 256, pattern: '^[A-Za-z0-9][A-Za-z0-9._/-]*$' },
      allow: { type: 'array', maxItems: 64, items: { type: 'string', minLength: 1, maxLength: 256 } },
      variant: { type: 'string', minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9._-]+$' }
    }
  },
  reply: {
    ...downloadStatus,
    properties: {
      ...downloadStatus.properties,
      storeMade: { type: 'string', description: 'the folder, where this made the node the store' }
    }
  },
  deadlineMs: 600_000,
  errors: [...storeErrors, 'download_running', 'import_refused', 'hub_disabled', 'missing_grant']
} as const satisfies RouteDecl

const plan = {
  method: 'GET', url: '/store/models/:model_id/download/plan', members: true, authority: 'cluster:write',
  summary: 'What a download would fetch, and whether it fits in the store and in memory; nothing is fetched.',
  params: modelParam,
  query: {
    type: 'object', additionalProperties: false,
    properties: {
      ...download.body.properties,
      source: {
        type: 'string', pattern: '^(hub|cache|ollama:.+)$', maxLength: 512, description: '`hub` when left out'
      }
    }
  },
  reply: {
    type: 'object', additionalProperties: false,
    required: [
      'modelId', 'hub', 'commit', 'files', 'totalBytes', 'variant', 'engine', 'weightsBytes', 'variants',
      'disk', 'memory', 'unused'
    ],
    properties: {
      modelId: text, hub: text, commit: text, totalBytes: bytes, weightsBytes: bytes,
      files: { type: 'integer', minimum: 1 }, variant: nullable, engine: { enum: ['gguf', 'onnx', null] },
      variants: {
        type: 'array',
        items: {
          type: 'object', additionalProperties: false, required: ['name', 'bytes', 'fits'],
          properties: {
            name: text, bytes,
            fits: { type: ['boolean', 'null'], description: 'into memory; null: not known' }
          }
        }
      },
      disk: {
        type: 'object', additionalProperties: false, required: ['node', 'roomBytes', 'problem'],
        properties: { node: text, roomBytes: bytes, problem: nullable }
      },
      memory: {
        type: ['object', 'null'], additionalProperties: false,
        description: 'of the cluster, for all of the model but its context; null: not known',
        required: ['neededBytes', 'nodes', 'problem', 'engineMissing'],
        properties: {
          neededBytes: bytes, problem: nullable, engineMissing: nullable,
          nodes: {
            type: 'array',
            items: {
              type: 'object', additionalProperties: false, required: ['name', 'neededBytes', 'usableBytes'],
              properties: { name: text, neededBytes: bytes, usableBytes: bytes }
            }
          }
        }
      },
      unused: { type: 'array', items: text, description: 'what of the model is of no use here' }
    }
  },
  errors: [
    'missing_grant', 'import_refused', 'hub_disabled', 'hub_not_found', 'hub_gated', 'hub_unusable',
    'hub_unavailable', 'store_unreachable'
  ]
} as const satisfies RouteDecl

const searchHub = {
  method: 'GET', url: '/store/search', members: true, authority: 'cluster:write',
  summary: 'Models of the public hub whose names have these words: those in a format that runs here first.',
  query: {
    type: 'object', additionalProperties: false, required: ['query'],
    properties: {
      query: { type: 'string', minLength: 1, maxLength: 200, pattern: '\\S' },
      limit: {
        type: 'integer', minimum: 1, maximum: 100, default: 20, description: 'at most so many of each format'
      }
    }
  },
  reply: {
    type: 'object', additionalProperties: false, required: ['hub', 'query', 'models'],
    properties: {
      hub: text, query: text,
      models: {
        type: 'array',
        items: {
          type: 'object', additionalProperties: false,
          required: ['modelId', 'engine', 'task', 'downloads', 'likes', 'updatedAt', 'gated', 'here'],
          properties: {
            modelId: text, task: nullable, updatedAt: nullable,
            engine: {
              enum: ['gguf', 'onnx', null], description: 'the format that runs here; null where there is none'
            },
            downloads: { type: ['integer', 'null'] }, likes: { type: ['integer', 'null'] },
            gated: { type: 'boolean', description: 'its terms must be accepted at the hub first' },
            here: { type: 'boolean', description: 'whether the cluster has it already' }
          }
        }
      }
    }
  },
  errors: ['invalid_request', 'hub_disabled', 'hub_gated', 'hub_unavailable', 'store_unreachable']
} as const satisfies RouteDecl

const downloadState = {
  method: 'GET', url: '/store/models/:model_id/download/status', members: true, authority: 'read',
  summary: 'How far the download of a model is.',
  params: modelParam, reply: downloadStatus, errors: storeErrors
} as const satisfies RouteDecl

const pause = {
  method: 'POST', url: '/store/models/:model_id/download/pause', members: true, authority: 'cluster:write',
  summary: 'Pauses a download, also over restarts of the node; what has come is kept.',
  params: modelParam, reply: downloadStatus, errors: [...storeErrors, 'download_not_found']
} as const satisfies RouteDecl

const cancelDownload = {
  method: 'DELETE', url: '/store/models/:model_id/download', members: true, authority: 'cluster:write',
  summary: 'Cancels a download; what has come is kept for the next one.',
  params: modelParam, reply: downloadStatus, errors: [...storeErrors, 'download_not_found']
} as const satisfies RouteDecl

const nodeResult =
  { type: 'array', items: object({ nodeId: text, status: text, error: nullable }) } as const

const stage = {
  method: 'POST', url: '/store/models/:model_id/stage', members: true, authority: 'cluster:write',
  summary: 'Copies a model from the store onto nodes; with `wait`, answers when it is there.',
  params: modelParam,
  body: {
    type: 'object', additionalProperties: false,
    properties: {
      nodeIds: nodeRefs, node_ids: nodeRefs, wait: { type: 'boolean' },
      timeout_seconds: { type: 'integer', minimum: 1, maximum: 86_400 }
    }
  },
  reply: {
    type: 'object', additionalProperties: false, required: ['commandId', 'message', 'nodes'],
    properties: { commandId: text, message: text, nodes: nodeResult }
  },
  deadlineMs: 86_430_000,
  errors: ['node_not_found', 'model_not_found', ...storeErrors]
} as const satisfies RouteDecl

const purgeResult = {
  type: 'array',
  items: {
    type: 'object', additionalProperties: false,
    required: ['nodeId', 'removed', 'skippedInUse', 'freedBytes', 'error'],
    properties: {
      nodeId: text, freedBytes: bytes, error: nullable,
      removed: { type: 'array', items: text }, skippedInUse: { type: 'array', items: text },
      copies: {
        type: 'array', description: 'with dry_run only; oldest use first',
        items: {
          type: 'object', additionalProperties: false,
          required: [
            'modelId', 'sizeBytes', 'freeableBytes', 'lastUsedEpochSeconds', 'inUse', 'overBudget'
          ],
          properties: {
            modelId: text, sizeBytes: bytes, lastUsedEpochSeconds: bytes, inUse: { type: 'boolean' },
            freeableBytes: { ...bytes, description: 'what removing it gives back; links count 0' },
            overBudget: {
              type: 'boolean',
              description: 'idle and beyond staging_keep_recent_gb: the next eviction takes it'
            }
          }
        }
      }
    }
  }
} as const

const dryRun = {
  type: 'boolean',
  description: 'true: nothing is removed; the answer is what a purge would do, and each node\'s copies in ' +
    'the order in which evictions take them'
} as const

const purge = {
  method: 'POST', url: '/store/purge-staging', members: true, authority: 'cluster:write',
  summary: 'Removes staged copies that are not in use from every node: all, or one model\'s.',
  body: {
    type: 'object', additionalProperties: false,
    properties: { modelId, model_id: modelId, dryRun, dry_run: dryRun }
  },
  reply: {
    type: 'object', additionalProperties: false, required: ['commandId', 'message', 'nodes'],
    properties: { commandId: text, message: text, nodes: purgeResult }
  },
  errors: ['invalid_request']
} as const satisfies RouteDecl

const remove = {
  method: 'DELETE', url: '/store/models/:model_id', members: true, authority: 'cluster:write',
  summary: 'Deletes a model from the store, and the staged copies that are not in use.',
  params: modelParam,
  reply: object({ modelId: text, deleted: { const: true } }),
  errors: [...storeErrors, 'model_not_found', 'model_bundled']
} as const satisfies RouteDecl

const from = {
  enum: ['store', 'self'],
  description: '`self`: the copy of this node, also while it is still being received'
} as const

const digest = {
  type: 'string', pattern: '^[0-9a-f]{64}$',
  description: 'of the content that is wanted, where there may be several'
} as const

const manifest = {
  method: 'GET', url: '/store/models/:model_id/manifest', members: true, authority: 'read',
  summary: 'Every file of a model with its size and the hashes of its chunks.',
  params: modelParam,
  query: { type: 'object', additionalProperties: false, properties: { from, digest } },
  reply: {
    type: 'object', required: ['modelId', 'revision', 'totalBytes', 'chunkBytes', 'files'],
    properties: {
      modelId: text, revision: text, totalBytes: bytes, chunkBytes: bytes, files: { type: 'array' }
    }
  },
  errors: [...storeErrors, 'model_not_found']
} as const satisfies RouteDecl

const file = {
  method: 'GET', url: '/store/models/:model_id/files/*', members: true, authority: 'read', stream: true,
  summary: 'The bytes of a file; a single Range is honoured, the ETag is the SHA-256.',
  params: {
    type: 'object', required: ['model_id', '*'],
    properties: { model_id: { type: 'string', minLength: 1 }, '*': { type: 'string' } }
  },
  query: { type: 'object', additionalProperties: false, properties: { from, digest } },
  produces: 'application/octet-stream',
  errors: [...storeErrors, 'model_not_found', 'range_not_satisfiable', 'chunk_not_here']
} as const satisfies RouteDecl

/** HTTP routes of this plugin; the handlers are in `handlers/`. */
export const routes = {
  storage, health, registry, downloads, download, plan, searchHub, downloadState, pause, cancelDownload,
  stage, purge, remove, manifest, file, models: list, model: one, modelsShort, copies, card,
  add, removeCustom
} as const satisfies Record<string, RouteDecl>
