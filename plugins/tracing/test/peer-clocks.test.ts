import t from 'tap'
import fc from 'fast-check'
import { boundsOf, clockOffset } from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import { PeerClocks } from '../peer-clocks.js'
import type { Channel, Cluster } from '../../../kernel/index.js'
import type { ManualClock } from '../../../kernel/testing/index.js'

interface Node {
  name: string
  clock: ManualClock
  clocks: PeerClocks
  hear (from: string, message: unknown): void
}
type Letter = [to: string, from: string, message: unknown]

/** Two nodes with different clocks; the test delivers their messages. */
function pair (): { a: Node, b: Node, deliver: () => void, waiting: Letter[] } {
  const waiting: Letter[] = []
  const made = (name: string, other: string): Node => {
    const clock = manualClock()
    const node: Partial<Node> = { name, clock }
    const cluster = {
      self: { installId: name, nodeId: `start-of-${name}` },
      channel: (_: string, receive: Node['hear']) => {
        node.hear = receive
        return {
          send: (to: string, message: unknown) => { waiting.push([to, name, message]); return true },
          broadcast: (message: unknown) => { waiting.push([other, name, message]); return 1 },
          close: () => {}
        }
      }
    } as unknown as Cluster & { channel (): Channel<unknown> }
    node.clocks = new PeerClocks({ clock, cluster })
    return node as Node
  }
  const [a, b] = [made('a', 'b'), made('b', 'a')]
  const deliver = (): void => {
    for (const [to, from, message] of waiting.splice(0)) (to === 'a' ? a : b).hear(from, message)
  }
  return { a, b, deliver, waiting }
}

t.test('the clock of another node, between two messages', async (t) => {
  const { a, b, deliver } = pair()
  await b.clock.advance(500)
  t.equal(a.clocks.bounds('b', 'start-of-b'), undefined)
  const ask = async (there: number, back: number): Promise<void> => {
    a.clocks.ask()
    await Promise.all([a.clock.advance(there), b.clock.advance(there)])
    deliver()
    await Promise.all([a.clock.advance(back), b.clock.advance(back)])
    deliver()
  }
  await ask(2, 6)
  t.same(a.clocks.bounds('b', 'start-of-b'), { lo: 494, hi: 502 })
  await ask(1, 1)
  const best = a.clocks.bounds('b', 'start-of-b')
  t.same(best, { lo: 499, hi: 501 }, 'the surest counts')
  t.equal(a.clocks.bounds('b', 'an-earlier-start'), undefined)
  await a.clock.advance(10_000)
  t.same(a.clocks.bounds('b', 'start-of-b'), { lo: 498, hi: 502 }, 'and is less worth as it ages')
})

t.test('answers nobody asked for are left alone', async (t) => {
  const { a, waiting } = pair()
  for (const message of [null, 7, {}, { answer: 1, at: 1, nodeId: 'x' }, { ask: 'now' }]) a.hear('b', message)
  a.clocks.ask()
  for (const at of ['x', Number.NaN, null]) a.hear('b', { answer: 0, at, nodeId: 'start-of-b' })
  a.hear('b', { answer: 0, at: 5, nodeId: 9 })
  t.equal(a.clocks.bounds('b', 'start-of-b'), undefined)
  t.equal(waiting.length, 1)
  a.clocks.close()
})

t.test('the offset of a clock is inside what is stated, whatever the ways take', (t) => {
  const ms = fc.double({ min: 0, max: 1000, noNaN: true })
  fc.assert(fc.property(fc.double({ min: -1e9, max: 1e9, noNaN: true }), ms, ms, ms, ms, ms,
    (offset, there, work, back, pingThere, pingBack) => {
      const own = boundsOf({
        sentMs: 100, arrivedMs: 100 + there + offset, leftMs: 100 + there + work + offset,
        backMs: 100 + there + work + back
      })
      const at = 50 + pingThere + offset
      const ping = boundsOf({
        sentMs: 50, arrivedMs: at, backMs: 50 + pingThere + pingBack
      })
      for (const known of [undefined, ping]) {
        const { offsetMs, uncertaintyMs } = clockOffset(own, known)
        if (Math.abs(offsetMs - offset) > uncertaintyMs + 1e-5) return false
      }
      return clockOffset(own, ping).uncertaintyMs <= clockOffset(own).uncertaintyMs + 1e-5
    }))
  t.same(clockOffset({ lo: 0, hi: 2 }, { lo: 5, hi: 6 }), { offsetMs: 1, uncertaintyMs: 1 },
    'a measurement that contradicts the request is left out')
  t.end()
})
