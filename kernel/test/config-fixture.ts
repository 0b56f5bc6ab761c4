import { resolveConfig, type ResolvedConfig } from '../config/resolve.js'
import { readConfigText } from '../config/text.js'
import type { Problem } from '../config/problems.js'
import type { JsonSchema } from '../api/schema.js'
import type { ConfigOwner } from '../api/plugin.js'

const section = (properties: Record<string, JsonSchema>, more: JsonSchema = {}): JsonSchema =>
  ({ type: 'object', additionalProperties: false, properties, ...more })

/** Fictitious plugins that together have every kind of setting. */
export const owners: readonly ConfigOwner[] = [
  {
    name: 'runners',
    bundled: true,
    variables: { SVC_WARMUP_DEADLINE_SECONDS: 'How long a warmup may take.' },
    config: section({
      threads: {
        type: 'integer',
        minimum: 1,
        maximum: 64,
        default: 2,
        description: 'Threads of one runner.'
      },
      backends: {
        type: 'object',
        additionalProperties: { type: 'string', enum: ['cpu', 'cuda', 'webgpu'] },
        default: {},
        description: 'Backend by engine.'
      },
      tags: { type: 'array', items: { type: 'string' }, description: 'Tags.', examples: [['fast', 'quiet']] },
      retry: section({
        tries: { type: 'integer', minimum: 0, default: 3 },
        base_seconds: { type: 'number', exclusiveMinimum: 0, default: 0.5 }
      })
    })
  },
  {
    name: 'hub',
    bundled: true,
    config: section({
      token: { type: 'string', minLength: 4, 'x-secret': true, description: 'Token of the hub.' },
      headers: { type: 'object', additionalProperties: { type: 'string' } },
      mode: { anyOf: [{ type: 'string', enum: ['fast'] }, { type: 'integer', minimum: 1 }], default: 'fast' }
    })
  },
  {
    name: 'staging',
    bundled: true,
    settings: {
      model_store: section({
        store_path: { type: 'string', minLength: 1, description: 'Where the store is.' },
        staging: section({
          cleanup_on_deactivate: { type: 'boolean', default: true },
          staging_keep_recent_gb: { type: 'number', minimum: 0, default: 40 }
        })
      }),
      node_cache_path: {
        type: 'string',
        minLength: 1,
        default: '~/.svc/staging'
      },
      node_overrides: {
        type: 'object',
        additionalProperties: section({ staging_keep_recent_gb: { type: 'number', minimum: 0 } })
      }
    }
  },
  { name: 'empty', bundled: true }
]

/** A third-party plugin with a required key. */
export const guest: ConfigOwner = {
  name: 'guest', bundled: false, config: section({ city: { type: 'string' } }, { required: ['city'] })
}

export interface Resolved { config: ResolvedConfig, problems: Problem[], warnings: Problem[] }

export interface Given {
  env?: Record<string, string>
  flags?: Record<string, unknown>
  owners?: readonly ConfigOwner[]
  authorities?: readonly string[]
}

/** Resolves a configuration text as if it were /etc/svc/svc.yaml. */
export function resolveText (text: string, given: Given = {}): Resolved {
  return resolveConfig(readConfigText(text, '/etc/svc/svc.yaml'), { owners, env: {}, ...given })
}

/** Formats problems as `line:column path: message` for comparison. */
export function brief (problems: readonly Problem[]): string[] {
  return problems.map(({ line, column, source, path, message, suggestion }) => {
    const place = line === null ? source ?? '-' : `${line}:${String(column)}`
    return `${place} ${path}: ${message}${suggestion === undefined ? '' : ` [${suggestion}]`}`
  })
}
