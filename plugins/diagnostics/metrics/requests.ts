import { Counter, Gauge, Histogram } from 'prom-client'
import type { Registry } from 'prom-client'
import type { CallOutcome, Inspection, Traffic } from '../../../kernel/index.js'
import type { EndedTask, RunnerWork } from '../../runners/service.js'
import type { Group } from './index.js'

export interface RequestMetricsParts {
  traffic: Traffic
  /** Absent where the plugin `runners` is off. */
  work: Pick<RunnerWork, 'onTask'> | undefined
  inspection: Pick<Inspection, 'openStreams' | 'openCommands'>
}

/** Seconds; a token may take 10 ms and a long answer minutes. */
const SHORT = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const LONG = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

/** Requests, capability calls and tasks: counted as they end. */
export function requestMetrics (registry: Registry, parts: RequestMetricsParts): Group {
  const made = makeMetrics(registry)
  const stops = [
    parts.traffic.onAnswer((owner, status) => {
      made.requests.inc({ class: owner ?? 'none', status: String(status) })
    }),
    parts.traffic.onCall((outcome) => { countCall(made, outcome) }),
    parts.work?.onTask((task) => { countTask(made, task) }) ?? (() => {})
  ]
  return {
    sample () {
      made.running.reset()
      made.waiting.reset()
      for (const { capability, running, waiting } of parts.traffic.queues()) {
        made.running.set({ capability }, running)
        made.waiting.set({ capability }, waiting)
      }
      made.streams.set(parts.inspection.openStreams())
      made.commands.set(parts.inspection.openCommands())
    },
    stop () { for (const stop of stops) stop() }
  }
}

type Made = ReturnType<typeof makeMetrics>

function countCall (made: Made, { capability, kind, seconds, queuedSeconds }: CallOutcome): void {
  made.calls.inc({ capability, outcome: kind })
  made.callSeconds.observe({ capability }, seconds)
  if (queuedSeconds !== null) made.queueSeconds.observe({ capability }, queuedSeconds)
}

/** A task counts as a request where it came in, and as work where its runner is. */
function countTask (made: Made, task: EndedTask): void {
  const { capability, modelId: model, tokens, audioSeconds } = task
  if (task.entered) {
    made.tasks.inc({ capability, status: task.status })
    made.taskSeconds.observe({ capability }, task.seconds)
    if (task.firstSeconds !== null) made.firstSeconds.observe({ capability }, task.firstSeconds)
  }
  if (!task.served) return
  if (tokens !== null) {
    made.prompt.inc({ model }, tokens.prompt)
    made.cached.inc({ model }, tokens.cached)
    made.generated.inc({ model }, tokens.generated)
  }
  if (audioSeconds > 0) made.audio.inc({ model }, audioSeconds)
}

function makeMetrics (registry: Registry) {
  const registers = [registry]
  return {
    ...callMetrics(registry),
    tasks: new Counter({
      name: 'svc_tasks_total', labelNames: ['capability', 'status'], registers,
      help: 'Ended tasks of requests that came to this node, wherever they were served, by how they ended.'
    }),
    firstSeconds: new Histogram({
      name: 'svc_task_first_output_seconds', labelNames: ['capability'], buckets: SHORT, registers,
      help: 'From the choice of a runner to the first token (chat) or sound (tts).'
    }),
    taskSeconds: new Histogram({
      name: 'svc_task_duration_seconds', labelNames: ['capability'], buckets: LONG, registers,
      help: 'From the choice of a runner to the end of the task.'
    }),
    prompt: new Counter({
      name: 'svc_prompt_tokens_total', labelNames: ['model'], registers,
      help: 'Tokens of the prompts that runners of this node have read, those found in a cache included.'
    }),
    cached: new Counter({
      name: 'svc_prompt_tokens_cached_total', labelNames: ['model'], registers,
      help: 'Tokens of prompts that were found in a cache and did not have to be computed.'
    }),
    generated: new Counter({
      name: 'svc_generated_tokens_total', labelNames: ['model'], registers,
      help: 'Tokens that runners of this node have generated.'
    }),
    audio: new Counter({
      name: 'svc_audio_seconds_total', labelNames: ['model'], registers,
      help: 'Length of the sound that runners of this node have made.'
    })
  }
}

function callMetrics (registry: Registry) {
  const registers = [registry]
  return {
    requests: new Counter({
      name: 'svc_http_requests_total', labelNames: ['class', 'status'], registers,
      help: 'HTTP requests by the plugin of their route (none: no route fits) and status (499: cut off).'
    }),
    calls: new Counter({
      name: 'svc_calls_total', labelNames: ['capability', 'outcome'], registers,
      help: 'Ended capability calls, and requests served in the place of one, by how they ended.'
    }),
    callSeconds: new Histogram({
      name: 'svc_call_duration_seconds', labelNames: ['capability'], buckets: LONG, registers,
      help: 'From the arrival of a capability call to its end.'
    }),
    queueSeconds: new Histogram({
      name: 'svc_call_queue_seconds', labelNames: ['capability'], buckets: SHORT, registers,
      help: 'How long a capability call waited for a place.'
    }),
    running: new Gauge({
      name: 'svc_calls_running', labelNames: ['capability'], registers, help: 'Capability calls under way.'
    }),
    waiting: new Gauge({
      name: 'svc_calls_waiting', labelNames: ['capability'], registers,
      help: 'Capability calls that wait for a place.'
    }),
    streams: new Gauge({ name: 'svc_open_streams', registers, help: 'Open streamed answers and sessions.' }),
    commands: new Gauge({
      name: 'svc_open_commands', registers, help: 'Requests under way that can be cancelled.'
    })
  }
}
