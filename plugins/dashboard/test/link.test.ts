/** Runs the page's connection without a browser: its globals, its timers and its network are fakes. */
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'

/** A WebSocket without a node: it closes at once. */
class RefusedSocket {
  static opened = 0
  onclose: (event: object) => void = () => {}
  constructor () {
    RefusedSocket.opened++
    queueMicrotask(() => { this.onclose({ code: 1006 }) })
  }

  close (): void {}
}

const STEP_MS = 50

/** Counts the attempts of the page to connect, by the fake clock. */
async function attempts (seconds: number): Promise<number> {
  const before = RefusedSocket.opened
  for (let ms = 0; ms < seconds * 1000; ms += STEP_MS) {
    mock.timers.tick(STEP_MS)
    for (let i = 0; i < 3; i++) await turn()
  }
  return RefusedSocket.opened - before
}

t.test('a page whose node is gone tries ever more rarely, at times of its own', async (t) => {
  let random = 0.5
  const fakes = {
    location: { origin: 'http://127.0.0.1:9' }, WebSocket: RefusedSocket,
    fetch: async () => { throw new TypeError('fetch failed') }
  }
  for (const [name, value] of Object.entries(fakes)) t.intercept(globalThis, name as never, { value })
  t.intercept(Math, 'random', { value: () => random })
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  t.teardown(() => { mock.timers.reset() })
  // The path is not a literal, because the page's types need those of a browser.
  const path = new URL('../page/link.js', import.meta.url).href
  const { connect } = await import(path) as { connect (): void }
  connect()
  const soon = await attempts(20)
  t.ok(soon >= 4 && soon <= 8, `${soon} attempts in the first 20 s`)
  for (const [value, least, most] of [[0, 38, 40], [0.999, 19, 21]] as const) {
    random = value
    const count = await attempts(300)
    t.ok(count >= least && count <= most, `${count} attempts in 5 min, between ${least} and ${most}`)
  }
})
