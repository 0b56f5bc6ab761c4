import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { entryAfter, START, type Entry, type Position } from '../log/entries.js'
import { diskTest } from './store-kit.js'
import { noSqlite, startLog } from './kit.js'

type T = Pick<Test, 'same' | 'ok' | 'equal' | 'match' | 'teardown'>

interface Followed {
  head: Response
  text (): string
  ids (): string[]
  /** Waits for the event with this id, searching after the event that the previous call found. */
  untilId (id: number): Promise<void>
  until (wanted: RegExp): Promise<void>
  close (): void
}

async function open (t: T, url: string, headers: Record<string, string> = {}): Promise<Followed> {
  const stop = new AbortController()
  t.teardown(() => { stop.abort() })
  const head = await fetch(url, { headers, signal: stop.signal })
  let text = ''
  let seen = 0
  const decoder = new TextDecoder()
  const read = async (): Promise<void> => {
    for await (const part of head.body!) text += decoder.decode(part as Uint8Array, { stream: true })
  }
  read().catch(() => {})
  return {
    head,
    text: () => text,
    ids: () => [...text.matchAll(/^id: (.*)$/gm)].map((m) => m[1]!),
    async untilId (id) {
      let at = -1
      for (let i = 0; i < 6_000 && at < 0; i++) {
        at = text.indexOf(`id: ${id}\n`, seen)
        if (at < 0) await pause(10)
      }
      t.ok(at >= 0, `event ${id} has come`)
      seen = at
    },
    async until (wanted) {
      for (let i = 0; i < 6_000 && !wanted.test(text); i++) await pause(10)
      t.match(text, wanted)
    },
    close () { stop.abort() }
  }
}

t.test('a stream outlives a session change and is taken up where it broke off', async (t) => {
  const rig = await startLog(t)
  const url = `${await rig.listen()}/events?follow=1`
  rig.happen('NodeJoined', { nodeId: 'before' })
  const first = await open(t, url)
  t.equal(first.head.headers.get('content-type'), 'text/event-stream')
  await first.until(/^: following\n\n/)
  rig.happen('NodeJoined', { nodeId: 'x' })
  await first.until(/id: 2\ndata: \{"idx":2,.*"event":\{"NodeJoined":\{"nodeId":"x"\}\}\}\n\n/)
  rig.session('s2', 'self-install')
  rig.happen('MasterElected', {})
  await first.until(/id: 3\ndata: .*"sessionId":"s2"/)
  t.same(first.ids(), ['2', '3'])
  first.close()
  rig.happen('NodeJoined', { nodeId: 'missed' })
  const second = await open(t, url, { 'last-event-id': '3' })
  await second.until(/id: 4\n/)
  rig.happen('NodeJoined', { nodeId: 'y' })
  await second.until(/id: 5\n/)
  t.same(second.ids(), ['4', '5'])
})

t.test('where a stream begins', async (t) => {
  const rig = await startLog(t)
  const base = await rig.listen()
  for (let i = 0; i < 4; i++) {
    rig.happen(i % 2 === 0 ? 'NodeJoined' : 'NodeTimedOut')
    await rig.clock.advance(60_000)
  }
  const check = async (query: string, ids: string[], headers: Record<string, string> = {}): Promise<void> => {
    const stream = await open(t, `${base}/events?follow=1${query}`, headers)
    await stream.until(new RegExp(`^: following\n\n[^]*${ids.length === 0 ? '' : `id: ${ids.at(-1)!}\n`}`))
    t.same(stream.ids(), ids, query)
    stream.close()
  }
  await check('', [])
  await check('&since=1', ['2', '3', '4'])
  await check('&limit=2', ['3', '4'])
  await check('&limit=100', ['1', '2', '3', '4'])
  await check('&limit=1&kinds=NodeJoined', ['3'])
  await check('&since=2026-01-01T00:02:00Z', ['3', '4'])
  await check('&since=1', ['4'], { 'last-event-id': '3' })
})

t.test('an idle stream gets a comment every ten seconds', async (t) => {
  const rig = await startLog(t)
  const stream = await open(t, `${await rig.listen()}/events?follow=1`)
  await stream.until(/^: following\n\n$/)
  await rig.clock.advance(9_000)
  t.notMatch(stream.text(), /keep-alive/)
  await rig.clock.advance(2_000)
  await stream.until(/: keep-alive\n\n$/)
})

t.test('what is no longer kept is named in the stream', async (t) => {
  const rig = await startLog(t, { parts: noSqlite })
  const url = `${await rig.listen()}/events?follow=1&kinds=MasterElected&since=3`
  for (let i = 0; i < 10_010; i++) rig.happen('NodeJoined')
  const stream = await open(t, url)
  await stream.until(/event: gap\ndata: \{"from":4,"to":10\}\n\n/)
})

diskTest('a stream that is taken up further back than memory goes has everything once', async (t) => {
  const rig = await startLog(t)
  const url = `${await rig.listen()}/events?follow=1`
  const happen = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      rig.happen('NodeJoined')
      if (i === 5000) await rig.stored()
    }
  }
  await happen(10_500)
  const numbers = (from: number, to: number): string[] =>
    Array.from({ length: to - from + 1 }, (_, i) => String(from + i))
  const first = await open(t, url, { 'last-event-id': '17' })
  await first.untilId(300)
  await happen(100)
  await first.untilId(10_600)
  t.same(first.ids(), numbers(18, 10_600))
  first.close()
  await happen(5)
  const second = await open(t, url, { 'last-event-id': '200' })
  await second.untilId(10_605)
  t.same(second.ids(), numbers(201, 10_605))
  t.notMatch(second.text(), /event: gap/)
  const third = await open(t, `${url}&since=2026-01-01T00:00:00Z&kinds=NodeJoined`)
  await third.untilId(3)
  t.equal(third.ids()[0], '1', 'a time before anything in memory')
  const last = await open(t, `${url}&kinds=MasterElected&limit=2`)
  await last.until(/following/)
  t.same(last.ids(), [])
})

t.test('an index of a cluster that has ended begins anew', async (t) => {
  const rig = await startLog(t)
  rig.happen('NodeJoined', { nodeId: 'new' })
  const stream = await open(t, `${await rig.listen()}/events?follow=1`, { 'last-event-id': '900' })
  await stream.until(/id: 1\n/)
  rig.happen('NodeJoined')
  await stream.until(/id: 2\n/)
  t.same(stream.ids(), ['1', '2'])
})

t.test('a reader that takes nothing ends its own stream only', async (t) => {
  const rig = await startLog(t)
  const base = await rig.listen()
  const { Socket } = await import('node:net')
  const slow = new Socket()
  t.teardown(() => { slow.destroy() })
  let ended = false
  slow.on('close', () => { ended = true }).on('error', () => {})
  await new Promise<void>((resolve) => { slow.connect(Number(new URL(base).port), '127.0.0.1', resolve) })
  slow.write(`GET /events?follow=1 HTTP/1.1\r\nHost: ${new URL(base).host}\r\n\r\n`)
  const quick = await open(t, `${base}/events?follow=1`)
  await quick.until(/following/)
  for (let round = 1; round <= 23; round++) {
    for (let i = 0; i < 100; i++) rig.happen('NodeJoined', { nodeId: 'x'.repeat(7_000) })
    await quick.untilId(round * 100)
  }
  for (let i = 0; i < 31; i++) await rig.clock.advance(1_000)
  slow.resume()
  for (let i = 0; i < 6_000 && !ended; i++) await pause(10)
  t.ok(ended, 'the slow one is cut')
  rig.happen('NodeJoined')
  await quick.untilId(2301)
  t.same(quick.ids(), Array.from({ length: 2301 }, (_, i) => String(i + 1)))
})

/** A chain of entries after `base`, as the master of session `sid` would assign them. */
function chain (base: Position, sid: string, ids: readonly string[]): Entry[] {
  let last = base
  return ids.map((id) => {
    const entry = entryAfter(last, last.idx + 1, sid, { id, at: '2026-01-01T00:00:00.000Z', origin: 'o',
      event: { NodeJoined: { nodeId: id } } })
    last = entry
    return entry
  })
}

t.test('after a split the stream has what the other side had, and nothing twice', async (t) => {
  const rig = await startLog(t)
  const stream = await open(t, `${await rig.listen()}/events?follow=1`)
  await stream.until(/following/)
  rig.peer('other', true)
  rig.session('s2', 'other')
  const common = chain(START, 's2', ['a', 'b'])
  rig.hear('other', { type: 'append', sid: 's2', entries: common })
  await stream.until(/id: 2\n/)
  // Without its peer, the node becomes master of a new session.
  rig.peer('other', false)
  rig.session('s3', 'self-install')
  rig.happen('NodeJoined', { nodeId: 'mine' })
  rig.happen('NodeJoined', { nodeId: 'mine too' })
  await stream.until(/id: 4\n/)
  // The peer's log has continued in the meantime, and the peer becomes master.
  rig.peer('other', true)
  rig.session('s2', 'other')
  const want = rig.sent.findLast(({ message }) => (message as { type: string }).type === 'want')!
  const theirs = chain(common[1]!, 's2', ['theirs'])
  rig.hear('other', { type: 'page', sid: 's2', n: (want.message as { n: number }).n,
    base: { idx: 2, chain: common[1]!.chain }, entries: theirs,
    last: { idx: 3, chain: theirs[0]!.chain } })
  await stream.until(/"nodeId":"theirs"/)
  const submit = rig.sent.findLast(({ message }) => (message as { type: string }).type === 'submit')!
  const { events } = submit.message as { events: Entry[] }
  t.same(events.map((e) => e.event['NodeJoined']!['nodeId']), ['mine', 'mine too'], 'none is lost')
  const again = entryAfter(theirs[0]!, 5, 's2', events[0]!)
  const more = [again, entryAfter(again, 6, 's2', events[1]!)]
  rig.hear('other', { type: 'append', sid: 's2', entries: [...more, ...chain(more[1]!, 's2', ['next'])] })
  await stream.until(/id: 7\n/)
  t.same([...stream.text().matchAll(/"nodeId":"(.*?)"/g)].map((m) => m[1]),
    ['a', 'b', 'mine', 'mine too', 'theirs', 'next'])
  t.same(stream.ids(), ['1', '2', '3', '4', '7'], 'the id never goes back')
  t.same((await rig.page()).events.map((e) => e.idx), [1, 2, 3, 5, 6, 7])
})
