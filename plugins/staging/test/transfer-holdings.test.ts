import t from 'tap'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { bitmapOf, Swarm } from '../transfer/swarm.js'
import { ChunkAnnouncements, type HoldingsMessage } from '../transfer/holdings.js'
import type { StagingContext } from '../manifest.js'

const m = 'a'.repeat(64)
const other = 'b'.repeat(64)

interface Net {
  nodes: Map<string, ChunkAnnouncements>
  /** Delivers a message to a node. */
  deliver (from: string, to: string, message: unknown): void
  /** Reports to a node that another one has come or gone. */
  peer (to: string, installId: string, up: boolean): void
  log: Array<{ from: string, message: HoldingsMessage }>
  clock: ManualClock
}

/** Simulated nodes whose messages arrive immediately, as JSON. */
function net (...ids: string[]): Net {
  const clock = manualClock()
  const nodes = new Map<string, ChunkAnnouncements>()
  const log: Net['log'] = []
  const receivers = new Map<string, (from: string, message: unknown) => void>()
  const watchers = new Map<string, (peer: { installId: string, up: boolean }) => void>()
  const deliver: Net['deliver'] = (from, to, message) => { receivers.get(to)?.(from, message) }
  const copy = (message: HoldingsMessage): unknown => JSON.parse(JSON.stringify(message))
  for (const id of ids) {
    const channel = {
      send (to: string, message: HoldingsMessage) {
        log.push({ from: id, message })
        deliver(id, to, copy(message))
        return true
      },
      broadcast (message: HoldingsMessage) {
        log.push({ from: id, message })
        for (const to of nodes.keys()) if (to !== id) deliver(id, to, copy(message))
        return nodes.size - 1
      },
      close () {}
    }
    const cluster = {
      channel: (_: string, receive: (from: string, message: unknown) => void) => {
        receivers.set(id, receive)
        return channel
      },
      onPeers: (fn: (peer: { installId: string, up: boolean }) => void) => {
        watchers.set(id, fn)
        return () => {}
      }
    }
    nodes.set(id, new ChunkAnnouncements({ clock, deps: { cluster } } as unknown as StagingContext))
  }
  const peer: Net['peer'] = (to, installId, up) => { watchers.get(to)!({ installId, up }) }
  return { nodes, deliver, peer, log, clock }
}

t.test('who follows hears what is offered, got, claimed and ended', async (t) => {
  const { nodes, peer, log, clock } = net('a', 'b', 'c')
  const [a, b, c] = ['a', 'b', 'c'].map((id) => nodes.get(id)!) as [ChunkAnnouncements, ChunkAnnouncements,
    ChunkAnnouncements]
  const swarm = new Swarm(20)
  const stopA = a.offer(m, 'all')
  const stop = c.follow(m, swarm)
  t.ok(swarm.holds('a', 19), 'asked at the start')
  const stopB = b.offer(m, () => bitmapOf([3], 20))
  t.ok(swarm.holds('b', 3), 'told at once')
  t.notOk(swarm.holds('b', 4))

  for (const i of [4, 5]) b.announce(m, i)
  t.notOk(swarm.holds('b', 4), 'gathered')
  await clock.advance(100)
  t.ok(swarm.holds('b', 4) && swarm.holds('b', 5))
  const got = log.map(({ message }) => message).filter((message) => message.t === 'got')
  t.same(got, [{ t: 'got', m, i: [4, 5] }])

  b.claim(m, 6)
  const store = { id: 'store', kind: 'store' as const, has: () => true }
  t.equal(swarm.pick(store, new Set([6, 7]), new Set(), () => 0, clock.mono()), 7)

  stopA()
  t.notOk(swarm.holds('a', 19), 'gives none any more')
  peer('c', 'b', false)
  t.same(swarm.peers(), [])
  peer('c', 'b', true)
  t.ok(swarm.holds('b', 3), 'asked again')
  b.announce(m, 8)
  stopB()
  await clock.advance(1000)
  t.same(swarm.peers(), [], 'no news after the end')
  stop()
  a.offer(m, 'all')
  t.same(swarm.peers(), [], 'does not follow any more')
})

t.test('a later offer of the same model stays when the earlier one ends', async (t) => {
  const { nodes } = net('a', 'b')
  const swarm = new Swarm(4)
  nodes.get('b')!.follow(m, swarm)
  const stop = nodes.get('a')!.offer(m, 'all')
  nodes.get('a')!.offer(m, 'all')
  stop()
  t.ok(swarm.holds('a', 2))
})

t.test('many chunks at once go out in portions', async (t) => {
  const { nodes, log, clock } = net('a', 'b')
  const swarm = new Swarm(5000)
  nodes.get('b')!.follow(m, swarm)
  nodes.get('a')!.offer(m, () => new Uint8Array(625))
  for (let i = 0; i < 2500; i++) nodes.get('a')!.announce(m, i)
  await clock.advance(200)
  const sizes = log.flatMap(({ message }) => message.t === 'got' ? [message.i.length] : [])
  t.same(sizes, [1000, 1000, 500])
  t.ok(swarm.holds('a', 0) && swarm.holds('a', 2499))
})

t.test('hostile messages are ignored', async (t) => {
  const { nodes, deliver, log } = net('a', 'b')
  const swarm = new Swarm(16)
  const b = nodes.get('b')!
  b.follow(m, swarm)
  const sent = log.length
  const hostile: unknown[] = [
    undefined, null, 1, 'x', [], {}, { t: 'have' }, { t: 'ask' }, { t: 'ask', m: '../x' },
    { t: 'ask', m: other }, { t: 'have', m: other, all: true }, { t: 'have', m, all: 'yes' },
    { t: 'have', m, bits: 7 },
    { t: 'have', m, bits: 'A'.repeat(200_000) }, { t: 'have', m, bits: '!!' },
    { t: 'have', m, bits: 'AAAAAAAA' },
    { t: 'got', m, i: 3 }, { t: 'got', m, i: [1.5] }, { t: 'got', m, i: [-1] }, { t: 'got', m, i: ['1'] },
    { t: 'got', m, i: Array.from({ length: 5000 }, () => 1) }, { t: 'take', m, i: [1] },
    { t: 'take', m, i: 1e300 },
    { t: 'nonsense', m }, { t: 'toString', m }
  ]
  for (const message of hostile) t.doesNotThrow(() => { deliver('evil', 'b', message) })
  t.same(swarm.peers(), [])
  t.equal(log.length, sent, 'nothing answered')
  deliver('evil', 'b', { t: 'got', m, i: [99] })
  deliver('evil', 'b', { t: 'take', m, i: 99 })
  t.notOk(swarm.holds('evil', 99), 'no such chunk')
})
