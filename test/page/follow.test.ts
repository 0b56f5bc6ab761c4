// Time until a change at one node shows in browsers at two other nodes. To measure it:
// SVC_TEST_FULL=1 node test/run.mjs test/page/follow.test.ts
import t from 'tap'
import { startCluster } from '../node/cluster-kit.js'
import { ask } from '../node/http.js'
import { figure, inTime, pick, sleep, until } from '../node/kit.js'
import { openBrowser, openPage, skip, type View } from './kit.js'

const CHANGES = pick(12, 300)
/** Time in ms between two changes, longer than a change takes to arrive. */
const APART_MS = pick(50, 250)

/** Records the wall-clock times (ms) at which the page starts or stops showing a node as drained. */
const WATCH = `{
  window.drawn = []
  let shown = null
  const look = () => {
    const badges = [...document.querySelectorAll('[aria-label=Nodes] .badge.warn')]
    const now = badges.some(({ textContent }) => textContent === 'drained')
    if (now !== shown) drawn.push({ drained: shown = now, at: performance.timeOrigin + performance.now() })
  }
  look()
  new MutationObserver(() => { requestAnimationFrame(look) })
    .observe(document.body, { subtree: true, childList: true, characterData: true })
}`

interface Drawn { drained: boolean, at: number }
const drawnBy = async ({ page }: View): Promise<Drawn[]> => await page.evaluate('drawn') as Drawn[]

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)]!

t.test('a change on any of three nodes is drawn by two browsers', { skip }, async (t) => {
  const cluster = await startCluster(t, { nodes: 3 })
  await cluster.agreed()
  const nodes = cluster.members.map(({ node }) => node)
  const browser = await openBrowser(t)
  const views = await Promise.all(nodes.slice(0, 2).map(async (node) => await openPage(t, browser, node)))
  for (const { page } of views) await page.evaluate(WATCH)
  const sent: number[] = []
  for (let i = 0; i < CHANGES; i++) {
    await sleep(APART_MS)
    sent.push(performance.timeOrigin + performance.now())
    const method = i % 2 === 0 ? 'PUT' : 'DELETE'
    // The third node is drained and undrained; each node in turn receives the request.
    const answer = await ask(nodes[i % 3]!, '/nodes/n3/drain', { method, token: nodes[i % 3]!.token })
    t.equal(answer.status, 200)
    // Waits, because the next change might otherwise overtake this one on the screen.
    await until('both have drawn it', async () =>
      (await Promise.all(views.map(drawnBy))).every(({ length }) => length > i + 1))
  }
  const all = await Promise.all(views.map(drawnBy))
  const inTurn = Array.from({ length: CHANGES + 1 }, (_, i) => i % 2 === 1)
  for (const drawn of all) t.same(drawn.map(({ drained }) => drained), inTurn, 'each once, in order')
  const ms = all.flatMap((drawn) => sent.map((at, i) => drawn[i + 1]!.at - at)).sort((a, b) => a - b)
  const [p50, p95, p99, longest] = [0.5, 0.95, 0.99, 1].map((share) => Math.round(percentile(ms, share)))
  figure(t, 'a change, from the request to the screen', inTime(p99!, 150),
    { changes: ms.length, p50, p95, p99, longest })
  t.comment(`${ms.length} changes: p50 ${p50} ms, p95 ${p95} ms, p99 ${p99} ms, longest ${longest} ms`)
  t.same(views.flatMap(({ problems }) => problems), [])
})
