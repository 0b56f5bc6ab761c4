import type { Inspection, Traffic } from '../../../kernel/index.js'
import type { CallQueue, Calls } from '../../capabilities/service.js'
import type { EndedTask, RunnerWork } from '../../runners/service.js'
import { gauge } from './meters.js'
import type { Sample, Meters, Row } from './meters.js'

export interface RequestMetricsParts {
  traffic: Traffic
  /** Absent where the plugin `capabilities` is off. */
  calls: Calls | undefined
  /** Absent where the plugin `runners` is off. */
  work: Pick<RunnerWork, 'onTask'> | undefined
  inspection: Pick<Inspection, 'openStreams' | 'openCommands'>
}

/** Seconds; a token may take 10 ms and a long answer minutes. */
const SHORT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const LONG = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/** Requests, capability calls and tasks: counted as they end. */
export function requestMetrics (meters: Meters, parts: RequestMetricsParts): void {
  meters.table(() => parts, QUEUES)
  countAnswers(meters, parts.traffic)
  countCalls(meters, parts.calls)
  countTasks(meters, parts.work)
}

const perCapability = ({ calls }: RequestMetricsParts, of: (queue: CallQueue) => number): Sample[] =>
  calls?.queues().map((queue) => ({ labels: { capability: queue.capability }, value: of(queue) })) ?? []

const QUEUES: readonly Row<RequestMetricsParts>[] = [
  gauge('svc_calls_running', 'Capability calls under way.',
    (parts) => perCapability(parts, ({ running }) => running), ['capability']),
  gauge('svc_calls_waiting', 'Capability calls that wait for a place.',
    (parts) => perCapability(parts, ({ waiting }) => waiting), ['capability']),
  gauge('svc_open_streams', 'Open streamed answers and sessions.',
    ({ inspection }) => inspection.openStreams()),
  gauge('svc_open_commands', 'Requests under way that can be cancelled.',
    ({ inspection }) => inspection.openCommands())
]

function countAnswers (meters: Meters, traffic: Traffic): void {
  const requests = meters.counter('svc_http_requests_total',
    'HTTP requests by the plugin of their route (none: no route fits) and status (499: cut off).',
    ['class', 'status'])
  meters.onStop(traffic.onAnswer((owner, status) => {
    requests.inc({ class: owner ?? 'none', status: String(status) })
  }))
}

function countCalls (meters: Meters, calls: Calls | undefined): void {
  const ended = meters.counter('svc_calls_total',
    'Ended capability calls, and requests served in the place of one, by how they ended.',
    ['capability', 'outcome'])
  const duration = meters.seconds('svc_call_duration_seconds',
    'From the arrival of a capability call to its end.', LONG, ['capability'])
  const queued = meters.seconds('svc_call_queue_seconds',
    'How long a capability call waited for a place.', SHORT, ['capability'])
  meters.onStop(calls?.onEnd(({ capability, kind, seconds, queuedSeconds }) => {
    ended.inc({ capability, outcome: kind })
    duration.observe({ capability }, seconds)
    if (queuedSeconds !== null) queued.observe({ capability }, queuedSeconds)
  }) ?? (() => {}))
}

function countTasks (meters: Meters, work: RequestMetricsParts['work']): void {
  const tasks = meters.counter('svc_tasks_total',
    'Ended tasks of requests that came to this node, wherever they were served, by how they ended.',
    ['capability', 'status'])
  const first = meters.seconds('svc_task_first_output_seconds',
    'From the choice of a runner to the first token (chat) or sound (tts).', SHORT, ['capability'])
  const duration = meters.seconds('svc_task_duration_seconds',
    'From the choice of a runner to the end of the task.', LONG, ['capability'])
  const served = countWork(meters)
  meters.onStop(work?.onTask((task) => {
    const { capability, status, seconds, firstSeconds } = task
    if (task.entered) {
      tasks.inc({ capability, status })
      duration.observe({ capability }, seconds)
      if (firstSeconds !== null) first.observe({ capability }, firstSeconds)
    }
    if (task.served) served(task)
  }) ?? (() => {}))
}

function countWork (meters: Meters): (task: EndedTask) => void {
  const byModel = (name: string, help: string) => meters.counter(name, help, ['model'])
  const prompt = byModel('svc_prompt_tokens_total',
    'Tokens of the prompts that runners of this node have read, those found in a cache included.')
  const cached = byModel('svc_prompt_tokens_cached_total',
    'Tokens of prompts that were found in a cache and did not have to be computed.')
  const generated = byModel('svc_generated_tokens_total', 'Tokens that runners of this node have generated.')
  const audio = byModel('svc_audio_seconds_total', 'Length of the sound that runners of this node have made.')
  return ({ modelId: model, tokens, audioSeconds }) => {
    if (tokens !== null) {
      prompt.inc({ model }, tokens.prompt)
      cached.inc({ model }, tokens.cached)
      generated.inc({ model }, tokens.generated)
    }
    if (audioSeconds > 0) audio.inc({ model }, audioSeconds)
  }
}
