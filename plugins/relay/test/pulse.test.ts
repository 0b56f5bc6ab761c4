import { randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import t from 'tap'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { answerDevice, callNode, PeerTimeout, pulseTimes } from '../channel/secure.js'
import { agreementOf } from '../channel/suite.js'
import type { WebSocket } from 'ws'

t.test('an end that has nothing to say says so, and one that hears nothing gives up once', async (t) => {
  const clock = manualClock()
  const told: string[] = []
  const at = (what: string) => (): void => { told.push(`${what} ${clock.mono() / 1000}`) }
  const pulse = new PeerTimeout({
    clock, times: { checkMs: 5000, quietMs: 12_000, timeoutMs: 40_000 },
    beat: () => {
      at('beat')()
      pulse.sent()
    },
    onTimeout: at('gone')
  })
  await clock.advance(10_000)
  pulse.sent()
  await clock.advance(12_000)
  t.same(told, [], 'what is sent anyway is enough')
  await clock.advance(3000)
  pulse.received()
  await clock.advance(39_999)
  t.same(told, ['beat 25', 'beat 40', 'beat 55'])
  await clock.advance(60_000)
  t.same(told.slice(3), ['gone 65'], 'and then it is silent itself')
  t.ok(pulseTimes.timeoutMs + pulseTimes.checkMs <= 45_000)
  t.ok(pulseTimes.timeoutMs > 2 * (pulseTimes.quietMs + pulseTimes.checkMs), 'two may be lost')
})

/** One end of a WebSocket whose messages reach the other end in a later turn; `cut` loses them silently. */
class End extends EventEmitter {
  other!: End
  readonly bufferedAmount = 0
  readonly way: { cut: boolean }
  ended = false

  constructor (way: { cut: boolean }) {
    super()
    this.way = way
  }

  send (data: Uint8Array, done = (): void => {}): void {
    setImmediate(() => {
      if (!this.way.cut && !this.other.ended) this.other.emit('message', Buffer.from(data), true)
      done()
    })
  }

  terminate (): void {
    if (this.ended) return
    this.ended = true
    this.emit('close')
  }
}

async function joined (clock: ManualClock, way: { cut: boolean }) {
  const [near, far] = [new End(way), new End(way)]
  near.other = far
  far.other = near
  const own = agreementOf(randomBytes(32))
  const both = { clock, random: randomBytes, route: 'r' }
  const answered = answerDevice(far as unknown as WebSocket, {
    ...both, own, admit: () => 'phone', accept: (stream) => { stream.pipe(stream) }
  })
  const called = callNode(near as unknown as WebSocket, {
    ...both, own: agreementOf(randomBytes(32)), nodeKey: own.publicKey
  })
  return { device: await called, node: await answered, near, far }
}

t.test('an idle connection lives, and both ends notice within 45 s that it is dead', async (t) => {
  const clock = manualClock()
  const way = { cut: false }
  const { device, node, near, far } = await joined(clock, way)
  const open = await device.mux.open()
  await clock.advance(600_000)
  t.same([near.ended, far.ended], [false, false], 'ten minutes without a word')
  open.end('still here')
  t.equal(String(await new Promise((resolve) => { open.once('data', resolve) })), 'still here')
  const idle = await device.mux.open()
  const lost = new Promise<Error>((resolve) => { idle.once('error', resolve) })
  await clock.advance(5000)
  way.cut = true
  await clock.advance(30_000)
  t.same([near.ended, far.ended], [false, false], 'a pause is no end')
  await clock.advance(15_000)
  t.same([near.ended, far.ended], [true, true])
  t.match(await lost, { message: /silent for 40 s/, reason: 'unreachable' })
  await Promise.all([device.ended, node.ended])
})
