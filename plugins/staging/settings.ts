const folder = { 'type': 'string', 'minLength': 1, 'x-local': true } as const

const cachePath = {
  ...folder,
  description: 'Folder of staged copies, one subfolder <org>--<name> each; <home>/staging when absent.'
} as const

const staging = {
  type: 'object', additionalProperties: false, default: {},
  description: 'Staged copies: what the runtime loads from.',
  properties: {
    cleanup_on_deactivate: {
      type: 'boolean', default: true,
      description: 'Whether idle staged copies are evicted when an instance ends and at start.'
    },
    staging_keep_recent_gb: {
      type: 'number', minimum: 0, default: 40,
      description: 'GiB of most recently used idle copies that are kept.'
    }
  }
} as const

const hub = {
  type: 'object', additionalProperties: false, default: {},
  description: 'The public model hub. A token is read from the variable SVC_HUB_TOKEN, else HF_TOKEN; it ' +
    'is for huggingface.co, or for the host in SVC_HUB_TOKEN_HOST, and only sent by https.',
  properties: {
    enabled: { type: 'boolean', default: true, description: 'Whether models may be fetched from the hub.' },
    url: {
      'type': 'string', 'format': 'http-url', 'pattern': '^https?://[^@?#\\s]+$', 'x-local': true,
      'default': 'https://huggingface.co',
      'description': 'Base address of the hub, or of a mirror that speaks its API.'
    },
    redirect_hosts: {
      'type': 'array', 'uniqueItems': true, 'items': { type: 'string', minLength: 1 }, 'x-local': true,
      'default': ['*.huggingface.co', '*.hf.co'],
      'description': 'Hosts the hub may send a download to; *.example.net for all below one.'
    },
    cache_path: {
      ...folder,
      description: 'Folder for what a node fetches from the hub itself while no store can be reached; ' +
        '<home>/hub when absent.'
    }
  }
} as const

export const settings = {
  model_store: {
    type: 'object', additionalProperties: false, default: {}, description: 'Where models are kept.',
    properties: {
      staging,
      hub,
      store_path: { ...folder, description: 'Folder of the LAN store, on a store host.' },
      import_roots: {
        'type': 'array', 'uniqueItems': true, 'items': { type: 'string', minLength: 1 }, 'default': [],
        'x-local': true,
        'description': 'Folders below which every caller with `operator` may have models imported from; ' +
          'who has the operator.token of the node may from any.'
      },
      upload_mib_per_second: {
        type: 'number', exclusiveMinimum: 0,
        description: 'Most MiB a second this node sends to others that copy models; no limit when absent.'
      }
    }
  },
  node_cache_path: cachePath,
  node_overrides: {
    type: 'object', default: {},
    description: 'Staging settings of single nodes, by node name or install id.',
    additionalProperties: {
      type: 'object', additionalProperties: false,
      properties: {
        cleanup_on_deactivate: { type: 'boolean' },
        staging_keep_recent_gb: { type: 'number', minimum: 0 },
        node_cache_path: folder
      }
    }
  }
} as const

/** Staging settings with those of this node on top; the install id counts before the name. Pure. */
export const effective = <S extends object>(
  section: S, overrides: Readonly<Record<string, Partial<S>>>, node: { name: string, installId: string }
): S => ({ ...section, ...overrides[node.installId] ?? overrides[node.name] })
