import {
  ClusterService, DeclarationService, durableEvent, SessionService, StateService
} from '../../kernel/index.js'
import type { Context, EventDecl, Manifest, ToolDecl, VerbDecl } from '../../kernel/index.js'
import { BundleService, InstanceService, MachineService } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { errors } from './errors.js'
import { filePolicy } from './place/policies.js'
import { routes } from './routes.js'
import { PlacementService } from './service.js'
import { commands, sections } from './waitlist.js'

const config = {
  type: 'object', additionalProperties: false,
  properties: {
    autoplace: {
      type: 'array', items: { type: 'string', minLength: 3, maxLength: 200, pattern: '^[^/\\s]+/[^/\\s]+$' },
      uniqueItems: true,
      description:
        'Models that the cluster places automatically, one instance each, wherever they fit. ' +
        'Default: every model that ships with an enabled plugin. An empty list places none. The list of ' +
        'the master counts.'
    },
    drain_seconds: {
      type: 'integer', minimum: 0, maximum: 3600, default: 0,
      description: 'Default grace period for the open requests of an instance that DELETE stops, seconds.'
    },
    on_demand: {
      type: 'boolean', default: false,
      description: 'A request for a known model that is not placed places it and waits for it; if memory ' +
        'is short, idle models with a time to live are unloaded.'
    },
    on_demand_ttl_seconds: {
      type: 'integer', minimum: 1, maximum: 2_592_000, default: 300,
      description: 'Idle time after which a model that a request placed is unloaded, seconds.'
    },
    policies: {
      type: 'object', maxProperties: 256, default: {}, additionalProperties: filePolicy,
      propertyNames: { pattern: '^(?!(.*/)?(constructor|prototype)(/|$))[a-zA-Z0-9/_.:@-]{1,200}$' },
      description: 'Policies by model, e.g. {acme/chat: {replicas: {min: 1, max: 3, target_open: 2}}}. ' +
        'Those of the master count; a policy that was set by request replaces one.'
    },
    wait_seconds: {
      type: 'integer', minimum: 1, maximum: 3600, default: 120,
      description: 'Longest wait of a request for a model that is placed for it, seconds; then it gets 503.'
    }
  }
} as const

const text = { type: 'string' } as const
const count = { type: 'integer' } as const
/** Open requests and instances before the change, and the policy. */
const replica = {
  instanceId: text, modelId: text, open: count, instances: count, min: count, max: count, targetOpen: count
} as const

const events = {
  PlacementForced: durableEvent('An instance was placed without a memory check.', {
    instanceId: text, modelId: text, nodeIds: { type: 'array', items: text },
    by: { type: 'string', description: 'id of the caller' }
  }),
  InstanceWaiting: durableEvent(
    'A lost or wanted instance waits for a place; it is placed automatically.',
    { instanceId: text, modelId: text, reason: text, message: text }
  ),
  ReplicaAdded: durableEvent('The policy of a model added an instance.', replica),
  ReplicaRemoved: durableEvent('An instance that a policy had added was idle too long, or failed.', replica),
  NodeDrained: durableEvent('An operator drained a node: its instances move to other nodes.',
    { nodeId: text, name: text, by: text }),
  NodeUndrained: durableEvent('An operator ended the drain of a node.',
    { nodeId: text, name: text, by: text })
} as const satisfies Record<string, EventDecl>

const word = (description: string) => ({ type: 'string', minLength: 1, maxLength: 200, description }) as const
const args = <const P extends object>(properties: P) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties }) as const
const model = word('A model, such as acme/voice.')

const tools = {
  running: {
    summary: 'Which models are placed and in which state; which are on disk but not placed.', args: args({}),
    finds: { past: false },
    load: () => import('./tools/running.js')
  },
  why_model: {
    summary: 'Why a model does not answer: the cause and the fix, or where it answers and since when.',
    args: args({ model }), load: () => import('./tools/why-model.js')
  },
  why_request: {
    summary: 'What happened to a request and why it failed: where it ran, how long each step took, ' +
      'related events.',
    args: args({ id: word('Its command or task id, also with a prefix such as msg_.') }),
    load: () => import('./tools/why-request.js')
  },
  fit: {
    summary: 'Whether a model can be placed: on which nodes, the memory calculation, what would make it fit.',
    args: { ...args({ model, without: word('Name of a node to exclude.') }), required: ['model'] },
    load: () => import('./tools/fit.js')
  },
  what_if: {
    summary: 'What would happen if a node died: instances and files lost, quorum, master, store.',
    args: args({ node: word('Name or id of the node.') }), load: () => import('./tools/what-if.js')
  }
} as const satisfies Record<string, ToolDecl>

export const verbs = {
  place: {
    heading: 'Keep models', summary: 'place a model on nodes with enough memory, and wait until it is ready',
    args: '<model>',
    options: [
      ['--min-nodes <n>', 'spread it over at least this many nodes'],
      ['--sharding <s>', 'how it is split: pipeline (by layers) or tensor'],
      ['--meta <kind>', 'how its parts communicate: Ring, or LlamaRpc for GGUF on llama.cpp'],
      ['--ctx <tokens>', 'context length in tokens; default: 2048 to 32768, by free memory'],
      ['--slots <n>', 'concurrent requests, each with its own context; default: as many as fit in memory'],
      ['--chat-template <file>', 'a Jinja chat template, instead of that of a GGUF model'],
      ['--engine <name>', 'the program that runs it, of several: vllm, mlx, sglang or one in svc.yaml'],
      ['--node <node>', 'place it on this node only'],
      ['--exclude <node...>', 'nodes to exclude, by id, install id or name'],
      ['--dry-run', 'show where it would go, or what would be unloaded for it; place nothing'],
      ['--explain', 'show the memory calculation for each node, and what would make it fit'],
      ['--ttl <seconds>', 'unload it after this long without a request'],
      ['--make-room', 'unload idle models with a time to live if memory is short'],
      ['--force', 'do not check memory; recorded in the event log'],
      ['-y, --yes', 'install a missing engine on this node without asking'],
      ['--wait [seconds]', 'wait at most this long, then exit 4 (default: while it makes progress)'],
      ['--no-wait', 'return without waiting']
    ],
    examples: [
      'svc place svc/voice-en --node attic', 'svc place acme/chat --dry-run --explain',
      'svc place acme/chat --min-nodes 2 --exclude attic --wait=300'
    ],
    load: () => import('./cli/place.js')
  },
  policy: {
    heading: 'Keep models',
    summary: 'set how many instances of a model run, and whether requests place it', args: '<model>',
    options: [
      ['--replicas <n>', 'instances to run, such as 2 or 1-3; none removes this part of the policy'],
      ['--target-open <n>', 'open requests per instance above which another one is placed; default: 4'],
      ['--idle <seconds>', 'time after which an instance without need is removed; default: 300'],
      ['--demand <on|off>', 'whether requests place it']
    ],
    examples: ['svc policy acme/chat --replicas 1-3 --target-open 2', 'svc show acme/chat'],
    load: () => import('./cli/policy.js')
  },
  ps: {
    heading: 'Keep models', summary: 'list placed and waiting instances: model, nodes, state, memory',
    examples: ['svc ps', 'svc ps --json | jq -r \'.instances[] | select(.state == "ready") | .instanceId\''],
    load: () => import('./cli/ps.js')
  },
  stop: {
    heading: 'Keep models',
    summary: 'stop an instance, or all instances of a model, after its open requests; the files stay',
    args: '<instance-or-model>',
    options: [
      ['--now', 'do not wait for open requests: they end with an error'],
      ['--wait [seconds]', 'wait until it is removed; exit 4 on timeout'],
      ['-y, --yes', 'do not ask before stopping several']
    ],
    examples: ['svc stop svc/voice-en', 'svc stop 7d0f8a52 --now', 'svc stop -y acme/chat --wait=60'],
    load: () => import('./cli/stop.js')
  },
  drain: {
    heading: 'Run a cluster',
    summary: 'stop running models on a node: its instances move to other nodes, and it gets no new ones',
    args: '<node>', options: [['--wait [seconds]', 'wait until it runs nothing; exit 4 on timeout']],
    examples: ['svc drain attic', 'svc drain attic --wait=600 && ssh attic sudo reboot'],
    load: () => import('./cli/drain.js')
  },
  undrain: {
    heading: 'Run a cluster', summary: 'let a drained node run models again', args: '<node>',
    examples: ['svc undrain attic'], load: async () => ({ default: (await import('./cli/drain.js')).undrain })
  },
  why: {
    heading: 'Watch it',
    summary: 'explain why a model does not answer, or what happened to a request (command or task id)',
    args: '<model-or-id>', explainsCommands: true,
    examples: [
      'svc why acme/chat', 'svc why svc/voice-en --json', 'svc why 6f0d5f9e-8f1c-4a52-9a39-0f3d5a1c2b44'
    ],
    load: () => import('./cli/why.js')
  }
} satisfies Record<string, VerbDecl>

export const manifest = {
  name: 'placement', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Decides which nodes run a model, and replaces lost instances.', requires: ['runners'],
  after: ['staging'],
  consumes: {
    bundle: BundleService, cluster: ClusterService, declarations: DeclarationService, session: SessionService,
    state: StateService, instances: InstanceService, machine: MachineService
  },
  consumesOptional: { models: ModelsService },
  provides: { keeping: PlacementService },
  config, sections, commands, routes, errors, events, verbs, tools,
  state: {
    waitingInstances: 'Instances that wait for a place, with the reason.',
    drainedNodes: 'Drained nodes by install id, with the time.',
    policies: 'Policies of models, and from where they come.'
  }
} as const satisfies Manifest

export type PlacementContext = Context<typeof manifest>
