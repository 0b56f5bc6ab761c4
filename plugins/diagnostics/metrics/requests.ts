import type { Traffic } from '../../../kernel/index.js'
import type { CallQueue } from '../../capabilities/service.js'
import type { EndedTask, TerminalStatus } from '../../runners/service.js'
import { gauge, type Meters, type MetricsParts, type Row, type Sample } from './meters.js'

/** Histogram buckets in seconds; a token may take 10 ms and a long answer minutes. */
const SHORT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const LONG = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/** Metrics of requests, capability calls and tasks, which are counted when they end. */
export function requestMetrics (meters: Meters, parts: MetricsParts): void {
  meters.table(() => parts, QUEUES)
  countAnswers(meters, parts.traffic)
  countCalls(meters, parts)
  countTasks(meters, parts)
}

const nameOf = ({ id, version }: MetricsParts['capabilities'][number]): string => `${id}@${version}`

function perCapability (parts: MetricsParts, of: (queue: CallQueue) => number): Sample[] {
  const idle = parts.capabilities.map((one) => ({ capability: nameOf(one), running: 0, waiting: 0 }))
  return [...idle, ...parts.calls?.queues() ?? []]
    .map((queue) => ({ labels: { capability: queue.capability }, value: of(queue) }))
}

const QUEUES: readonly Row<MetricsParts>[] = [
  gauge('svc_calls_running', 'Capability calls in progress.',
    (parts) => perCapability(parts, ({ running }) => running), ['capability']),
  gauge('svc_calls_waiting', 'Queued capability calls.',
    (parts) => perCapability(parts, ({ waiting }) => waiting), ['capability']),
  gauge('svc_open_streams', 'Open streamed answers and sessions.',
    ({ inspection }) => inspection.openStreams()),
  gauge('svc_open_commands', 'Requests in progress that can be cancelled.',
    ({ inspection }) => inspection.openCommands())
]

function countAnswers (meters: Meters, traffic: Traffic): void {
  const requests = meters.counter('svc_http_requests_total',
    'HTTP requests by the plugin of their route (none: no route matches) and status (499: cut off).',
    ['class', 'status'])
  requests.inc({ class: 'none', status: '404' }, 0)
  meters.onStop(traffic.onAnswer((owner, status) => {
    requests.inc({ class: owner ?? 'none', status: String(status) })
  }))
}

function countCalls (meters: Meters, { calls, capabilities }: MetricsParts): void {
  const ended = meters.counter('svc_calls_total',
    'Ended capability calls, and requests served instead of one, by outcome.',
    ['capability', 'outcome'])
  const duration = meters.seconds('svc_call_duration_seconds',
    'From the arrival of a capability call to its end.', LONG, ['capability'])
  const queued = meters.seconds('svc_call_queue_seconds',
    'How long a capability call was queued.', SHORT, ['capability'])
  for (const capability of capabilities.map(nameOf)) {
    ended.inc({ capability, outcome: 'completed' }, 0)
    duration.zero({ capability })
    queued.zero({ capability })
  }
  meters.onStop(calls?.onEnd(({ capability, kind, seconds, queuedSeconds }) => {
    ended.inc({ capability, outcome: kind })
    duration.observe({ capability }, seconds)
    if (queuedSeconds !== null) queued.observe({ capability }, queuedSeconds)
  }) ?? (() => {}))
}

function countTasks (meters: Meters, { work, runners, capabilities }: MetricsParts): void {
  const tasks = meters.counter('svc_tasks_total',
    'Ended tasks of requests to this node, served by any node or upstream, by status.',
    ['capability', 'status'])
  const first = meters.seconds('svc_task_first_output_seconds',
    'From the choice of a runner to the first token (chat) or sound (tts).', SHORT, ['capability'])
  const duration = meters.seconds('svc_task_duration_seconds',
    'From the choice of a runner to the end of the task.', LONG, ['capability'])
  for (const { id: capability } of capabilities) {
    for (const status of STATUSES) tasks.inc({ capability, status }, 0)
    first.zero({ capability })
    duration.zero({ capability })
  }
  const served = countWork(meters, runners)
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

const STATUSES: readonly TerminalStatus[] = ['Complete', 'TimedOut', 'Failed', 'Cancelled']

function countWork (meters: Meters, runners: MetricsParts['runners']): (task: EndedTask) => void {
  const byModel = (name: string, help: string) => meters.counter(name, help, ['model'])
  const prompt = byModel('svc_prompt_tokens_total',
    'Prompt tokens of this node\'s runners, including those found in a cache.')
  const cached = byModel('svc_prompt_tokens_cached_total',
    'Prompt tokens found in a cache, which were not computed again.')
  const generated = byModel('svc_generated_tokens_total', 'Tokens generated by this node\'s runners.')
  const audio = byModel('svc_audio_seconds_total', 'Length of the sound generated by this node\'s runners.')
  meters.beforeScrape(() => {
    for (const { modelId: model } of runners()) {
      for (const counter of [prompt, cached, generated, audio]) counter.inc({ model }, 0)
    }
  })
  return ({ modelId: model, tokens, audioSeconds }) => {
    if (tokens !== null) {
      prompt.inc({ model }, tokens.prompt)
      cached.inc({ model }, tokens.cached)
      generated.inc({ model }, tokens.generated)
    }
    if (audioSeconds > 0) audio.inc({ model }, audioSeconds)
  }
}
