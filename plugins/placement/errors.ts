import { becauseOff, kernelError, SvcError, switchOn } from '../../kernel/index.js'
import type { ErrorDecl, OffPlugin } from '../../kernel/index.js'
import { runnerErrors } from '../runners/service.js'
import type { Refusal } from './planner/index.js'

const refused = (message: string, remedy: string): ErrorDecl =>
  ({ status: 400, retryable: false, message, remedy })

/** Reasons this plugin answers with, beside the kernel's own and those of `runners`. */
export const errors = {
  insufficient_memory: refused('A node has not enough memory for its share of the model.',
    '`svc place MODEL --explain` shows the sums and what would make it fit, as details.suggestions does.'),
  no_connected_cycle: refused('Too few nodes are connected with each other in both directions.',
    'Lower min_nodes, or mend the links: `svc doctor` shows which dial fails.'),
  engine_missing: refused('No node has the external program that the model runs on.',
    '`svc engine add llama.cpp` brings it, on each node that is to run such models.'),
  spread_unsupported: refused('The engine does not spread a model over nodes in that way.',
    'Set min_nodes to 1, or instance_meta to details.engineSpreadsAs where that is not null.'),
  exclusions_removed_all: refused('The exclusions leave no node.', 'Exclude fewer nodes.'),
  nodes_drained: refused('Every node that could run the model is drained.',
    '`svc undrain NODE` lets one run models again; `svc nodes` shows which are drained.'),
  tensor_unsupported: refused('The model cannot be cut by tensors.',
    'Place it without: `svc place MODEL --sharding pipeline`.'),
  tensor_indivisible: refused('The model cannot be cut evenly for that many nodes.',
    'Choose another min_nodes, or the sharding Pipeline.'),
  too_few_layers: refused('The model has fewer layers than nodes are asked for.', 'Lower min_nodes.'),
  info_pending: {
    status: 503,
    retryable: true,
    message: 'Not every node has told of its memory and backends yet.',
    remedy: 'Try again shortly; `svc nodes` shows which node tells nothing of its memory.',
    retryAfterSeconds: 2
  },
  no_source: refused('No node has the files of the model.',
    '`svc pull MODEL` brings them; `svc ls` shows which models are there.'),
  insufficient_disk: {
    status: 507,
    retryable: false,
    message: 'No node that could run the model has room for its files.',
    remedy: 'Free space on a node, or `svc purge` what is not in use there; `svc doctor` shows its disks.'
  },
  readings_disabled: refused('A node publishes no readings of its memory.',
    'Start it without SVC_TELEMETRY_DISABLE=1, or place the model by a request to that node itself.'),
  not_waiting: {
    status: 409,
    retryable: false,
    message: 'What this instance was to take the place of is placed already, or is not wanted any more.',
    remedy: '`svc ps` shows what is placed and what waits for a place.'
  },
  instance_failed: {
    status: 500,
    retryable: false,
    message: 'The instance was placed and could not start.',
    remedy: '`svc why MODEL` names the cause; `svc stop INSTANCE` gives the place back.'
  },
  not_ready_yet: {
    status: 504,
    retryable: true,
    message: 'The instance is placed and not ready yet.',
    remedy: 'It goes on starting: `svc ps` shows how far it is.'
  }
} as const satisfies Record<string, ErrorDecl>

const declared: Readonly<Record<string, ErrorDecl>> = { ...errors, ...runnerErrors }

/** An error with one of the reasons by which placing is refused. */
export function refuse (
  reason: keyof typeof errors | keyof typeof runnerErrors, message: string,
  details: Record<string, unknown> = {}
): SvcError {
  return new SvcError(reason, declared[reason]!, message, details)
}

export function refusalError ({ reason, message, details }: Refusal): SvcError {
  return refuse(reason, message, details)
}

export function invalid (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}

const KNOWN_MAX = 50

export function modelUnknown (modelId: string, known: readonly string[], off?: OffPlugin): SvcError {
  return refuse('model_unknown', `No model is called ${modelId.slice(0, 200)}${becauseOff(off)}.`, {
    param: 'model_id',
    known: known.slice(0, KNOWN_MAX),
    remedy: off !== undefined ? switchOn(off)
      : `\`svc ls\` lists the models; \`svc pull ${modelId.slice(0, 200)}\` brings one.`
  })
}
