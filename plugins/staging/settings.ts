import { closedObject } from '../../kernel/index.js'

const folder = { 'type': 'string', 'minLength': 1, 'x-local': true } as const

const staging = {
  type: 'object', additionalProperties: false, default: {},
  description: 'Staged copies, from which runners load models.',
  properties: {
    cleanup_on_deactivate: {
      type: 'boolean', default: true,
      description: 'Whether idle staged copies are evicted at start and when an instance ends.'
    },
    staging_keep_recent_gb: {
      type: 'number', minimum: 0, default: 40,
      description: 'GiB of the most recently used idle copies to keep.'
    }
  }
} as const

const hub = {
  type: 'object', additionalProperties: false, default: {},
  description: 'The public model hub. The token comes from the variable SVC_HUB_TOKEN, else HF_TOKEN. ' +
    'svc sends it only to huggingface.co, or to the host in SVC_HUB_TOKEN_HOST, and only over https.',
  properties: {
    enabled: { type: 'boolean', default: true, description: 'Whether svc may download models from the hub.' },
    url: {
      'type': 'string', 'format': 'http-url', 'pattern': '^https?://[^@?#\\s]+$', 'x-local': true,
      'default': 'https://huggingface.co',
      'description': 'Base address of the hub, or of a mirror that speaks its API.'
    },
    redirect_hosts: {
      'type': 'array', 'uniqueItems': true, 'items': { type: 'string', minLength: 1 }, 'x-local': true,
      'default': ['*.huggingface.co', '*.hf.co'],
      'description': 'Hosts that the hub may redirect downloads to; *.example.net for all subdomains.'
    },
    cache_path: {
      ...folder,
      description: 'Folder for models that a node downloads from the hub if the store cannot be reached; ' +
        'default <home>/hub.'
    }
  }
} as const

export const settings = {
  model_store: {
    type: 'object', additionalProperties: false, default: {}, description: 'Store, hub and staged copies.',
    properties: {
      staging, hub, store_path: { ...folder, description: 'Folder of the LAN store, on a store host.' },
      import_roots: {
        'type': 'array', 'uniqueItems': true, 'items': { type: 'string', minLength: 1 }, 'default': [],
        'x-local': true,
        'description': 'Folders from which every caller with `operator` may import models; ' +
          'callers with the node\'s operator.token may import from any folder.'
      },
      upload_mib_per_second: {
        type: 'number', exclusiveMinimum: 0,
        description: 'Maximum MiB per second for model transfers from this node; no limit by default.'
      }
    }
  },
  node_cache_path: {
    ...folder,
    description: 'Folder of staged copies, one subfolder <org>--<name> each; default <home>/staging.'
  },
  node_overrides: {
    type: 'object', default: {},
    description: 'Staging settings for single nodes, by node name or install id.',
    additionalProperties: closedObject({
      cleanup_on_deactivate: { type: 'boolean' }, staging_keep_recent_gb: { type: 'number', minimum: 0 },
      node_cache_path: folder
    }, [])
  }
} as const

/** The section with this node's overrides, found by its install id or else by its name. Pure. */
export const effective = <S extends object>(
  section: S, overrides: Readonly<Record<string, Partial<S>>>, node: { name: string, installId: string }
): S => ({ ...section, ...overrides[node.installId] ?? overrides[node.name] })
