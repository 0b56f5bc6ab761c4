import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { TaskTable, TaskWatchers } from '../routing/tasks.js'
import { RunnerError } from '../process/errors.js'
import { serve, watched } from '../routing/serve.js'
import type { Caller, EngineChunk } from '../../../kernel/index.js'
import type { EndedTask, Route } from '../service.js'

const caller: Caller = { id: 'ann', mode: 'direct', authorities: new Set() }
const log = { debug () {}, info () {}, warn () {}, error () {}, fatal () {} }

function desk (options: { nodeId?: string, member?: string | null } = {}) {
  const clock = manualClock()
  const watchers = new TaskWatchers(clock, 'here')
  const told: EndedTask[] = []
  const stop = watchers.onTask((task) => { told.push(task) })
  const tasks = new TaskTable(clock.mono)
  const failed: object[] = []
  const run = async (
    chunks: EngineChunk[], end: Error | null = null, signal = new AbortController().signal
  ): Promise<string> => {
    const taskId = `t${told.length}`
    const route: Route = {
      taskId, modelId: 'm', instanceId: 'i', runnerId: 'r', nodeId: options.nodeId ?? 'here', installId: 'x'
    }
    const task = {
      taskId, commandId: 'c', instanceId: 'i', modelId: 'm', capability: 'chat', createdAt: ''
    }
    tasks.add(task, 'r', { caller, member: options.member ?? null })
    async function * source (): AsyncGenerator<EngineChunk> {
      for (const chunk of chunks) {
        clock.advance(100)
        yield chunk
      }
      if (end !== null) throw end
    }
    try {
      const parts = { log, watchers, taskFailed: (failure: object) => { failed.push(failure) } }
      const work = { route, own: true, tasks, chunks: source }
      for await (const _ of serve(parts, work, signal)) { /* as a reader does */ }
      return 'end'
    } catch (error) {
      return (error as { reason: string }).reason
    }
  }
  return { run, told, stop, failed, watchers, tasks }
}

const admitted: EngineChunk = { payload: { choices: [], usage: { prompt_tokens: 9 } } }
const delta: EngineChunk = { payload: { choices: [{ index: 0, delta: { content: 'secret words' } }] } }
const done = (usage: Record<string, unknown>): EngineChunk => ({
  payload: { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }
})
const sound: EngineChunk = {
  payload: { model: 'svc/voice-en' }, media: new Uint8Array(3),
  timing: { timestampSeconds: 0, durationSeconds: 0.25 }
}

t.test('a task is told with its times and counts when it has ended', async (t) => {
  const { run, told } = desk()
  const usage = { prompt_tokens: 9, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 3 } }
  await run([admitted, delta, delta, done(usage), done({ ...usage, completion_tokens: 7 })])
  await run([sound, sound])
  await run([])
  await run([done({ prompt_tokens: -1, completion_tokens: 'many', prompt_tokens_details: null })])
  const about = {
    commandId: 'c', callerId: 'ann', modelId: 'm', capability: 'chat', entered: true, served: true,
    status: 'Complete', heardSeconds: 0
  }
  t.same(told, [
    {
      ...about, taskId: 't0',
      seconds: 0.5, firstSeconds: 0.2, tokens: { prompt: 9, cached: 3, generated: 12 }, audioSeconds: 0
    },
    {
      ...about, taskId: 't1',
      seconds: 0.2, firstSeconds: 0.1, tokens: null, audioSeconds: 0.5
    },
    {
      ...about, taskId: 't2',
      seconds: 0, firstSeconds: null, tokens: null, audioSeconds: 0
    },
    {
      ...about, taskId: 't3',
      seconds: 0.1, firstSeconds: 0.1, tokens: { prompt: 0, cached: 0, generated: 0 }, audioSeconds: 0
    }
  ])
  t.notMatch(JSON.stringify(told), /secret/)
})

t.test('where it came in and where it was served are told apart', async (t) => {
  const passedOn = desk({ nodeId: 'there' })
  await passedOn.run([delta])
  t.match(passedOn.told, [{ entered: true, served: false }])
  const taken = desk({ member: 'other' })
  await taken.run([delta])
  t.match(taken.told, [{ entered: false, served: true }])
})

t.test('how a task ended is told, also where an operator ended it', async (t) => {
  const { run, told, failed } = desk()
  t.equal(await run([delta], new RunnerError('cancelled', 'x')), 'cancelled')
  t.equal(await run([delta], new RunnerError('instance_lost', 'x')), 'instance_lost')
  const stop = new AbortController()
  stop.abort(new Error('gone'))
  t.equal(await run([delta], new RunnerError('cancelled', 'x'), stop.signal), 'cancelled')
  t.same(told.map(({ status }) => status), ['Cancelled', 'Failed', 'Cancelled'])
  t.equal(failed.length, 1, 'a cancel is no failure')
})

t.test('what was written before an early end counts, and the sound that was heard', async (t) => {
  const { run, told } = desk()
  const lost = new RunnerError('instance_lost', 'x')
  const queue = { payload: { choices: [], queue: { place: 1, slots: 1 } } }
  await run([queue, admitted, delta, delta], lost)
  await run([delta, done({ prompt_tokens: 9, completion_tokens: 8 })], lost)
  await run([delta, delta])
  await run([{ payload: { event: 'done', duration: 2.5 } }, { payload: { event: 'done', duration: 'x' } }])
  t.match(told, [
    { status: 'Failed', tokens: { prompt: 9, cached: 0, generated: 2 } },
    { status: 'Failed', tokens: { prompt: 9, generated: 8 } },
    { status: 'Complete', tokens: null }, { tokens: null, heardSeconds: 2.5 }
  ])
})

t.test('a virtual model is told, unless another model answers in its place', async (t) => {
  const { watchers, told } = desk()
  const virtual = async (chunks: EngineChunk[], end?: Error): Promise<void> => {
    const messages = [{ role: 'user', content: 'x'.repeat(400) }]
    const payload = { messages, image: 'data:' + 'y'.repeat(400) }
    const asked = { modelId: 'far/m', capability: 'chat', commandId: 'c', caller, payload }
    const route = { ...asked, taskId: 'v', instanceId: '', runnerId: '', nodeId: 'here', installId: 'x' }
    const watch = watchers.beginVirtual(route, asked)
    const source = async function * (): AsyncGenerator<EngineChunk> {
      yield * chunks
      if (end !== undefined) throw end
    }
    for await (const _ of watched(source(), watch, new AbortController().signal)) { /* as a reader does */ }
  }
  const usage = done({ prompt_tokens: 9, completion_tokens: 1 })
  await virtual([admitted, delta, usage])
  await virtual([{ payload: { ...delta.payload, model: 'near/m' } }, usage])
  await t.rejects(virtual([delta, delta], new Error('broken')))
  t.match(told, [
    { modelId: 'far/m', callerId: 'ann', entered: true, served: false, tokens: { prompt: 9, generated: 1 } },
    { status: 'Failed', tokens: { generated: 6 } }
  ])
  t.equal(told.length, 2)
  const { prompt } = told[1]!.tokens!
  t.ok(prompt > 100 && prompt < 130, `${prompt} tokens for 400 letters, without the image`)
})

t.test('nobody listens: nothing is watched', async (t) => {
  const { run, told, stop, watchers, tasks } = desk()
  stop()
  t.equal(await run([delta]), 'end')
  t.same(told, [])
  const route = {
    taskId: 'x', modelId: 'm', instanceId: 'i', runnerId: 'r', nodeId: 'here', installId: 'x'
  }
  t.equal(watchers.begin(route, tasks), undefined)
})
