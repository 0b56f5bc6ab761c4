import { becauseOff, SvcError, switchOn } from '../../kernel/index.js'
import type { ErrorDecl, OffPlugin } from '../../kernel/index.js'
import { runnerErrors } from '../runners/service.js'
import type { Refusal } from './planner/types.js'

const refused = (message: string, remedy: string): ErrorDecl =>
  ({ status: 400, retryable: false, message, remedy })

export const errors = {
  insufficient_memory: refused('A node has not enough memory for its share of the model.',
    '`svc place MODEL --explain` shows the calculation and what would make it fit, ' +
    'like details.suggestions.'),
  no_connected_cycle: refused('Too few nodes are connected to each other in both directions.',
    'Lower min_nodes, or fix the links: `svc doctor` shows which connection fails.'),
  engine_missing: refused('No node has the external program that the model runs on.',
    'Install it with `svc engine add llama.cpp` on each node that is to run such models.'),
  spread_unsupported: refused('The engine cannot spread a model over nodes in this way.',
    'Set min_nodes to 1, or instance_meta to details.engineSpreadsAs if that is not null.'),
  exclusions_removed_all: refused('The exclusions leave no node for the model.', 'Exclude fewer nodes.'),
  nodes_drained: refused('Every node that could run the model is drained.',
    '`svc undrain NODE` lets one run models again; `svc nodes` shows which are drained.'),
  tensor_unsupported: refused('The model does not support Tensor sharding.',
    'Use pipeline sharding: `svc place MODEL --sharding pipeline`.'),
  tensor_indivisible: refused('The model cannot be split evenly over that many nodes.',
    'Choose another min_nodes, or Pipeline sharding.'),
  too_few_layers: refused('The model has fewer layers than requested nodes.', 'Lower min_nodes.'),
  info_pending: {
    status: 503,
    retryable: true,
    message: 'Some nodes have not reported their memory and backends yet.',
    remedy: 'Retry shortly; `svc nodes` shows which nodes report no memory.',
    retryAfterSeconds: 2
  },
  no_source: refused('No node has the files of the model.',
    'Download them with `svc pull MODEL`; `svc ls` lists the models.'),
  insufficient_disk: {
    status: 507,
    retryable: false,
    message: 'No node that could run the model has enough disk space for its files.',
    remedy: 'Free disk space on a node, or remove unused models there with `svc purge`; `svc doctor` ' +
      'shows its disks.'
  },
  readings_disabled: refused('A node does not publish its memory readings.',
    'Start it without SVC_TELEMETRY_DISABLE=1, or send the request to that node.'),
  not_waiting: {
    status: 409,
    retryable: false,
    message: 'The instance that this one was to replace is already placed again, or no longer wanted.',
    remedy: '`svc ps` lists placed and waiting instances.'
  },
  instance_failed: {
    status: 500,
    retryable: false,
    message: 'The instance was placed but cannot start.',
    remedy: '`svc why MODEL` names the cause; `svc stop INSTANCE` removes it.'
  },
  not_ready_yet: {
    status: 504,
    retryable: true,
    message: 'The instance is placed but not ready yet.',
    remedy: 'It is still starting: `svc ps` shows its progress.'
  }
} as const satisfies Record<string, ErrorDecl>

const declared: Readonly<Record<string, ErrorDecl>> = { ...errors, ...runnerErrors }

export function refuse (
  reason: keyof typeof errors | keyof typeof runnerErrors, message: string,
  details: Record<string, unknown> = {}
): SvcError {
  return new SvcError(reason, declared[reason]!, message, details)
}

export function refusalError ({ reason, message, details }: Refusal): SvcError {
  return refuse(reason, message, details)
}

const KNOWN_MAX = 50

export function modelUnknown (modelId: string, known: readonly string[], off?: OffPlugin): SvcError {
  return refuse('model_unknown', `No model is called ${modelId.slice(0, 200)}${becauseOff(off)}.`, {
    param: 'model_id',
    known: known.slice(0, KNOWN_MAX),
    remedy: off !== undefined ? switchOn(off)
      : `\`svc ls\` lists the models; \`svc pull ${modelId.slice(0, 200)}\` downloads one.`
  })
}
