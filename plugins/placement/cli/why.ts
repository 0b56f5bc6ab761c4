import { isVerbError, modelInPath, plain, readModelId, showSpan } from '../../../kernel/cli/index.js'
import { nameOf } from './state.js'
import type { SeenState } from './state.js'
import { linesOf } from './sums.js'
import type { PreviewRow } from './sums.js'
import { gather } from './why-facts.js'
import { storyOf } from './why-story.js'
import type { Part, Story } from './why-story.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

export default {
  async run (ctx, [word]) {
    const id = requestIdIn(word!)
    if (id === null) return await whyModel(ctx, readModelId(ctx, word!))
    await whyRequest(ctx, id)
    return 0
  }
} satisfies Verb

/** One link of GET /models/{id}/availability. `ok` is null where an earlier one is broken. */
interface Link { link: string, ok: boolean | null, message: string, remedy: string | null }

async function whyModel (ctx: VerbContext, modelId: string): Promise<number> {
  const links = await look(ctx, modelId)
  const broken = links.find(({ ok }) => ok === false)
  const sums = broken?.link === 'placement' ? await refusalOf(ctx, modelId) : []
  if (ctx.out.json) {
    const shown = links.map((link) => link.link === 'placement' && sums.length > 0 ? { ...link, sums } : link)
    ctx.out.value({ modelId, links: shown })
  } else {
    showLinks(ctx, links)
    if (broken === undefined) ctx.err.line(`${modelId} answers`)
    for (const line of sums) ctx.err.line(plain(line))
    if (broken?.remedy != null) ctx.out.line(`next: ${plain(broken.remedy)}`)
  }
  return broken === undefined ? 0 : 1
}

async function look (ctx: VerbContext, modelId: string): Promise<Link[]> {
  const { links } = await ctx.client.json<{ links: Link[] }>(`/models/${modelInPath(modelId)}/availability`)
  // Asking for real work makes sense only where a runner can do it.
  if (links.some(({ ok }) => ok === false)) return links
  return [...links.slice(0, -1), await request(ctx, modelId)]
}

/** Whether the model answers, by the node that is asked. */
async function request ({ client }: VerbContext, modelId: string): Promise<Link> {
  const link = 'request'
  try {
    const { checks } = await client.json<{ checks: { name: string, detail: string }[] }>(
      `/readyz?${new URLSearchParams({ model: modelId }).toString()}`)
    const message = checks.find(({ name }) => name === 'runners')?.detail ?? 'it answers'
    return { link, ok: true, message, remedy: null }
  } catch (error) {
    if (!isVerbError(error) || error.api?.reason !== 'not_ready') throw error
    const checks = (error.api.details?.['checks'] ?? []) as { ok: boolean, detail: string }[]
    const detail = checks.find(({ ok }) => !ok)?.detail ?? error.api.message
    return {
      link,
      ok: false,
      message: `the node that was asked gets no answer from it: ${detail}`,
      remedy: `svc events --since 10m tells of failures; svc stop ${modelId} and svc place ${modelId} ` +
        'start it anew'
    }
  }
}

/** Why it cannot be placed, with the sums of memory; nothing where it can be, or nobody says. */
async function refusalOf ({ client }: VerbContext, modelId: string): Promise<string[]> {
  const query = new URLSearchParams({ model_id: modelId }).toString()
  const unknown = (error: unknown): PreviewRow[] => {
    if (isVerbError(error) && error.api?.reason === 'model_unknown') return []
    throw error
  }
  const [previews, state] = await Promise.all([
    client.json<{ previews: PreviewRow[] }>(`/instance/previews?${query}`)
      .then((body) => body.previews, unknown),
    client.json<SeenState>('/state')
  ])
  const [first] = previews
  if (first === undefined || previews.some(({ error }) => error === null)) return []
  return [`it cannot be placed now: ${first.error!}`,
    ...linesOf(modelId, first.details, (id) => nameOf(state, id))]
}

const MARKS = { true: ['ok', 'green'], false: ['no', 'red'], null: ['-', 'dim'] } as const

function showLinks ({ out, err, io }: VerbContext, links: readonly Link[]): void {
  // Colours are for stderr elsewhere; here the marks are the data.
  const paint = io.stdout.isTTY === true ? err.paint : (_: string, text: string): string => text
  for (const { link, ok, message } of links) {
    const [mark, colour] = MARKS[`${ok}`]
    out.line(`${paint(colour, mark.padEnd(2))}  ${link.padEnd(9)}  ${plain(message)}`)
  }
}

const UUID = /(?:^|[-_])([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i

/** The id of a command or task in a word, also behind the prefix of an answer's id; null without one. */
export function requestIdIn (word: string): string | null {
  return word.includes('/') ? null : UUID.exec(word)?.[1]?.toLowerCase() ?? null
}

async function whyRequest (ctx: VerbContext, id: string): Promise<void> {
  const facts = await gather(ctx, id)
  const { manifests } = await ctx.declared()
  const remedies = Object.assign({}, ...manifests.map(({ errors }) => errors ?? {})) as
    Record<string, { remedy: string }>
  const story = storyOf(facts, (reason) => remedies[reason]?.remedy ?? null)
  if (ctx.out.json) ctx.out.value(story)
  else showStory(ctx, story)
}

const ENDS = {
  completed: 'well', failed: 'failed', cancelled: 'cancelled', open: 'not yet', unknown: 'unknown'
} as const

/** Shows what became of a request on one page. */
function showStory ({ out, err }: VerbContext, story: Story): void {
  const { asked, entered, ran, parts, ended, around, logs, tookMs } = story
  const instance = asked.instanceId === null ? '' : `, instance ${asked.instanceId}`
  const nodes = new Set(parts.map(({ node }) => node)).size
  const over = ended.how === 'unknown' ? 'nobody works on it' : 'it is over'
  const rows: [title: string, lines: readonly string[]][] = [
    ['', [[['task', asked.taskId], ['command', asked.commandId]]
      .filter(([, id]) => id !== null).map((pair) => pair.join(' ')).join(', ')]],
    ['asked', [`${asked.kind ?? 'something'} of ${asked.modelId ?? 'a model that nobody noted'}` +
      `${asked.at === null ? '' : `, ${asked.at}`}`]],
    ['entered', [entered ?? 'nobody noted where']],
    ['ran', [ran.length === 0 ? 'nobody noted where' : `${ran.join(', ')}${instance}`]],
    ['took', [
      ...tookMs === null ? [] : [showMs(tookMs)], ...parts.map((part) => partText(part, tookMs, nodes))
    ]],
    ['ended', [[ENDS[ended.how], ended.reason, ended.message]
      .filter((text) => text !== null && text !== '').join(': ')]],
    ['around', around.map(({ at, text }) => `${at}  ${text}`)],
    ['logs', logs.map(({ at, node, text }) => `${at}  ${node}: ${text}`)],
    ['then', story.then],
    ['now', [story.open ? 'it is still under way' : over]],
    ['next', story.next]
  ]
  for (const [title, lines] of rows) {
    lines.forEach((line, i) => { out.line(plain(`${(i === 0 ? title : '').padEnd(8)}${line}`).trimEnd()) })
  }
  for (const text of story.unseen) err.line(`not looked at: ${plain(text)}`)
}

function partText ({ words, node, startMs, tookMs }: Part, wholeMs: number | null, nodes: number): string {
  const share = wholeMs === null || wholeMs === 0 ? '' : `${Math.round(tookMs / wholeMs * 100)} %`.padStart(6)
  const times = `  +${showMs(startMs).padEnd(8)} ${showMs(tookMs).padStart(8)} ${share}`
  return `${times}  ${words}${nodes > 1 ? ` (${node})` : ''}`
}

/** A length of time: `0.4 ms`, `312 ms`, `1.31 s`, `2m10s`. */
function showMs (ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1000).toFixed(2)} s` : showSpan(ms / 1000)
}
