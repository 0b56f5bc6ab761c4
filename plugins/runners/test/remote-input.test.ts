import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import {
  kernelError, type CapabilityCall, type EngineChunk, type EngineError, type EngineTask
} from '../../../kernel/index.js'
import { RunnerError } from '../process/errors.js'
import { encodeFrame, FROM_RUNNER, TO_RUNNER } from '../process/protocol.js'
import { endFrame, TASK_TYPE } from '../routing/remote/frames.js'
import { runTask, type Route } from '../service.js'
import { caller, hear, pair, query, task, until, VOICE, type Pair } from './remote-kit.js'

const never = new AbortController().signal

/** An engine that returns its input. */
async function * echo ({ input }: EngineTask): AsyncGenerator<EngineChunk> {
  let bytes = 0
  try {
    for await (const piece of input!) yield { payload: { bytes: bytes += piece.byteLength }, media: piece }
  } catch (error) {
    const { reason = 'provider_error', message } = error as EngineError
    throw new RunnerError(reason, message)
  }
  yield { payload: { bytes, end: true } }
}

/** An input that counts what was pulled from it. */
interface Source { pulled: number, closed: boolean, bytes (): AsyncGenerator<Uint8Array> }

/** `hold`: resolves when more than the first piece may be read. */
function source (pieces: number, size: number, hold?: Promise<unknown>): Source {
  const made: Source = {
    pulled: 0,
    closed: false,
    async * bytes () {
      try {
        for (let i = 0; i < pieces; i++) {
          if (i > 0) await hold
          made.pulled += size
          yield new Uint8Array(size).fill(i)
        }
      } finally {
        made.closed = true
      }
    }
  }
  return made
}

const withInput = (from: Source): EngineTask => ({ ...task, input: from.bytes() })

t.test('the input of a task goes to the node that serves it', async (t) => {
  const { asker, runner, rig } = await pair(t)
  runner.answer = echo
  const input = source(5, 300_000)
  const heard = await hear(asker.open(await asker.route(query), withInput(input), never))
  t.equal(heard.error, null)
  const back = Buffer.concat(heard.chunks.flatMap(({ media }) => media === undefined ? [] : [media]))
  t.equal(back.length, 1_500_000)
  t.ok(back.equals(Buffer.concat([0, 1, 2, 3, 4].map((i) => Buffer.alloc(300_000, i)))), 'unchanged')
  t.same(heard.chunks.at(-1)!.payload, { bytes: 1_500_000, end: true })
  await until(() => rig.kernel.commands.open === 0)

  let go = (): void => {}
  const slow = source(2, 10, new Promise<void>((resolve) => { go = resolve }))
  const both = await hear(asker.open(await asker.route(query), withInput(slow), never),
    ({ payload }) => { if (payload['bytes'] === 10) go() })
  t.equal(both.chunks.length, 3, 'the answer arrives before the input ends')
})

t.test('a slow engine slows the client, over both nodes', async (t) => {
  const { asker, runner } = await pair(t)
  let go = (): void => {}
  const open = new Promise<void>((resolve) => { go = resolve })
  runner.answer = async function * (work: EngineTask) {
    const iterator = work.input![Symbol.asyncIterator]()
    yield { payload: { bytes: (await iterator.next()).value.byteLength } }
    await open
    yield * echo({ ...work, input: { [Symbol.asyncIterator]: () => iterator } })
  }
  const input = source(100, 100_000)
  const heard = hear(asker.open(await asker.route(query), withInput(input), never))
  await until(() => input.pulled > 900_000)
  await sleep(50)
  t.ok(input.pulled < 1_300_000, `${input.pulled} bytes were read ahead`)
  go()
  t.same((await heard).chunks.at(-1)!.payload, { bytes: 9_900_000, end: true })
})

t.test('the ends', async (t) => {
  const check = async (
    name: string, act: (nodes: Pair, stop: () => void) => unknown, reason: string | undefined,
    broken?: Error
  ): Promise<void> => {
    const nodes = await pair(t)
    nodes.runner.answer = echo
    const stop = new AbortController()
    let fail = (_: Error): void => {}
    const hold = new Promise<void>((_resolve, reject) => { fail = reject })
    hold.catch(() => {})
    const input = source(2, 10, hold)
    const route = await nodes.asker.route(query)
    const heard = await hear(nodes.asker.open(route, withInput(input), stop.signal), async () => {
      await act(nodes, () => { stop.abort(kernelError('cancelled')) })
      if (broken !== undefined) fail(broken)
    })
    t.equal(heard.error?.['reason'], reason, name)
    // A generator that waits is closed once its wait ends.
    fail(new Error('late'))
    await until(() => input.closed)
    await until(() => nodes.rig.kernel.commands.open === 0)
  }
  await check('cancelled', (_, stop) => { stop() }, 'cancelled')
  await check('a connection that breaks', ({ sockets }) => { sockets.at(-1)!.destroy() }, 'instance_lost')
  await check('a node that dies', async ({ live, clock }) => { live.clear(); await clock.advance(2_000) },
    'instance_lost')
  await check('a client that breaks off', () => {}, 'cancelled', kernelError('cancelled'))
  await check('a client that sends too much', () => {}, 'payload_too_large', kernelError('payload_too_large'))

  const { asker, runner } = await pair(t)
  runner.answer = async function * () { yield { payload: {} } }
  const unread = source(1, 10)
  t.equal((await hear(asker.open(await asker.route(query), withInput(unread), never))).error, null)
  t.same([unread.pulled, unread.closed], [0, false], 'an input that no engine read stays as it was')
})

t.test('a task is tried again only if its input is still there', async (t) => {
  const call = { caller, signal: never, retry: true, setHeader () {} } as unknown as CapabilityCall
  const lost = kernelError('instance_lost', 'x')
  const refused = kernelError('instance_lost', 'x', { begun: false })
  const check = async (
    name: string, error: Error, reads: boolean, given: (from: Source) => EngineTask | (() => EngineTask),
    expected: number
  ): Promise<void> => {
    let tries = 0
    await hear(runTask({
      route: async () => ({ instanceId: `i${tries}`, taskId: 'T' } as Route),
      open: async function * (_route, { input }) {
        tries += 1
        if (reads || tries > 1) for await (const _ of input!) break
        if (tries === 1) throw error
        yield { payload: {} }
      }
    }, { modelId: VOICE, capability: 'tts', task: given(source(2, 10)) }, call))
    t.equal(tries, expected, name)
  }
  await check('refused, unread', refused, false, withInput, 2)
  await check('lost, unread', lost, false, withInput, 2)
  await check('refused, read', refused, true, withInput, 1)
  await check('lost, read', lost, true, withInput, 1)
  await check('lost, read, made anew', lost, true, (from) => () => withInput(from), 2)
})

t.test('hostile nodes', async (t) => {
  const nodes = await pair(t)
  nodes.runner.answer = echo
  const { instanceId, runnerId } = nodes.runner.options
  let ids = 0
  const body = () => ({
    taskId: `00000000-0000-4000-8000-${String(++ids).padStart(12, 'f')}`, commandId: 'C', modelId: VOICE,
    instanceId, runnerId, capability: 'tts', task
  })
  const check = async (
    name: string, frames: Uint8Array[][], status: number, answer: RegExp
  ): Promise<void> => {
    const sent = frames.flat()
    const { status: got, body: said } = await nodes.request({
      upload: { type: TASK_TYPE, bytes: (async function * () { yield * sent })() }
    })
    t.equal(got, status, name)
    t.match(Buffer.concat(await said.toArray() as Buffer[]).toString(), answer, name)
  }
  const first = (change: object = {}): Uint8Array[] =>
    encodeFrame(TO_RUNNER.task, 0, { ...body(), ...change })
  await check('nothing', [], 400, /invalid_request/)
  await check('nonsense', [[Buffer.from('GET / HTTP/1.1\r\n')]], 400, /invalid_request/)
  await check('another frame first', [encodeFrame(TO_RUNNER.cancel, 0, body())], 400, /invalid_request/)
  await check('an unknown field', [first({ more: 1 })], 400, /invalid_request/)
  await check('9 MiB', [first({ task: { kind: 'tts', payload: { x: 'x'.repeat(9 * 1024 ** 2) } } })], 400,
    /invalid_request/)
  await check('no end', [first()], 200, /"reason":"cancelled"/)
  await check('input ahead of the engine', [
    first(), encodeFrame(TO_RUNNER.input, 0, {}, new Uint8Array(2 * 1024 ** 2))
  ], 200, /"reason":"provider_error"|"reason":"internal"/)
  await check('a frame of another kind', [first(), encodeFrame(TO_RUNNER.stop, 0, {})], 200,
    /"reason":"provider_error"|"reason":"internal"/)

  nodes.stand.is = (_request, response) => {
    response.writeHead(200, { 'content-type': TASK_TYPE })
    response.write(encodeFrame(FROM_RUNNER.read, 0, { total: 1e15 })[0]!)
    response.end(endFrame()[0]!)
  }
  const input = source(100, 100_000)
  const heard = await hear(nodes.asker.open(await nodes.asker.route(query), withInput(input), never))
  t.match(heard.error, { reason: 'instance_lost' }, 'a node that claims more than was sent')
  t.equal(input.pulled, 0)
})
