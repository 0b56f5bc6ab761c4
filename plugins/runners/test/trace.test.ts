import t from 'tap'
import { systemClock, TracerService } from '../../../kernel/index.js'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { partReader } from '../../tracing/recording.js'
import { partOf, SpanRecorder } from '../process/span-recorder.js'
import { RunnerError } from '../process/errors.js'
import { DEFAULT_LIMITS } from '../process/limits.js'
import { readMessage } from '../process/messages.js'
import { RunnerRecord } from '../process/record.js'
import { TaskChannels } from '../process/channels.js'
import { runTask } from '../service.js'
import { hear, pair, query, task, VOICE } from './remote-kit.js'
import type { CapabilityCall, EngineTask, Trace, TraceEnd, TraceStart } from '../../../kernel/index.js'
import type { Link } from '../process/link.js'

const HEADER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const never = new AbortController().signal

/** A trace that records its calls. */
interface Told extends Trace { said: unknown[][], names: string[] }

function told (own: unknown = { part: 'of this node' }): Told {
  const said: unknown[][] = []
  const names: string[] = []
  let now = 0
  return {
    said,
    names,
    now: () => now++,
    span: (name) => { names.push(name) },
    series: (name) => ({ add: () => { names.push(name) } }),
    open: () => { throw new Error('nothing opens a part here') },
    task: (about) => { said.push(['task', about]) },
    note: (attrs) => { said.push(['note', attrs]) },
    hop (name, to, attrs) {
      let over = false
      said.push(['hop', name, to.installId, attrs])
      return {
        traceparent: HEADER,
        done: (part) => { if (!over) said.push(['done', name, part]); over = true }
      }
    },
    part: () => own,
    end: (how: TraceEnd) => { said.push(['end', how]) }
  }
}

t.test('a traced task takes what the runner recorded back with its end', (t) => {
  const sent: object[] = []
  const send = (_kind: number, _task: number, header: object): void => { sent.push(header) }
  const link = { send } as unknown as Link
  const table = new TaskChannels(DEFAULT_LIMITS, systemClock, link, new RunnerRecord(systemClock, 8))
  const open = (taskId: string, trace?: Trace): void => { table.open(taskId, plain, () => {}, trace) }
  const frame = { media: new Uint8Array(0), bytes: 10 }
  const plain: EngineTask = { kind: 'tts', payload: {} }
  open('a')
  const traces = [told(), told(), told()]
  for (const [i, trace] of traces.entries()) open(`b${i}`, trace)
  t.same(sent, [plain, ...traces.map(() => ({ kind: 'tts', payload: {}, trace: true }))])
  table.onMessage(1, { type: 'end' }, frame)
  table.onMessage(2, { type: 'end', trace: { a: 1 } }, frame)
  table.onMessage(3, { type: 'fail', reason: 'x', message: '', details: {}, trace: { b: 1 } }, frame)
  table.loseAll(new RunnerError('instance_lost', ''))
  const hop = ['hop', 'runner', null, undefined]
  t.same(traces.map(({ said }) => said), [
    [hop, ['done', 'runner', { a: 1 }]], [hop, ['done', 'runner', { b: 1 }]],
    [hop, ['done', 'runner', undefined]]
  ])
  t.same(readMessage({ kind: 23, header: {} }), { type: 'end' })
  t.same(readMessage({ kind: 23, header: { trace: 5 } }), { type: 'end', trace: 5 })
  t.end()
})

t.test('a traced task on another node takes back what that node recorded', async (t) => {
  for (const fails of [false, true]) {
    const { asker, rig, runner } = await pair(t)
    const recorder = new SpanRecorder(() => 1)
    const there = told(partOf(recorder, 'node', 0))
    const begun: TraceStart[] = []
    const tracer = { enabled: false, begin: (start: TraceStart) => { begun.push(start); return there } }
    t.teardown(rig.service(TracerService).use(tracer))
    const given: unknown[] = []
    runner.open = async function * (
      _id: string, _task: unknown, _signal: AbortSignal, more: { trace?: Trace }
    ) {
      given.push(more.trace)
      yield { payload: {} }
      if (fails) throw new RunnerError('timeout', 'late')
    } as typeof runner.open
    const trace = told()
    await hear(asker.open(await asker.route({ ...query, trace }), task, never))
    t.same(begun.map(({ member, traceparent, name }) => [member, traceparent, name]),
      [[true, HEADER, 'tts']])
    t.equal(given[0], there, 'its runner records too')
    const [hop, done] = trace.said as [unknown[], unknown[]]
    t.match(hop, ['hop', 'network', String, { node: 'beta' }])
    t.ok(partReader({ checker: schemaChecker })(done[2]), 'the part came back')
    t.match(there.said, [['task', { modelId: VOICE }]])
    t.ok(there.names.includes('send'))

    const untraced = told()
    await hear(asker.open(await asker.route(query), task, never))
    t.equal(begun.length, 1, 'nothing is recorded for a request without a trace')
    t.same(untraced.said, [])
  }
})

t.test('a request names its task to its trace', async (t) => {
  const { asker } = await pair(t)
  const trace = told()
  const { caller } = query
  const call = { commandId: 'C', caller, signal: never, trace, retry: false, setHeader: () => {} }
  await hear(runTask(asker, { modelId: VOICE, capability: 'tts', task }, call as unknown as CapabilityCall))
  t.match(trace.said[0], ['task', { taskId: /^0000/, modelId: VOICE, capability: 'tts' }])
  t.ok(trace.names.includes('route'))
})
