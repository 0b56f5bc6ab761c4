import { isVerbError, createGet, plain, readModelName, showMs } from '../../../kernel/cli/index.js'
import { systemClock } from '../../../kernel/index.js'
import { whyModel } from '../tools/model-chain.js'
import type { ChainLink } from '../tools/model-chain.js'
import { requestIdIn, whyRequest } from '../tools/why-request.js'
import type { Part, RequestHistory } from '../tools/request-history.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

export default {
  async run (ctx, [word]) {
    const id = requestIdIn(word!)
    return id === null ? await aboutModel(ctx, readModelName(ctx, word!)) : await aboutRequest(ctx, id)
  }
} satisfies Verb

async function aboutModel (ctx: VerbContext, modelId: string): Promise<number> {
  const why = await whyModel(createGet(ctx.client), modelId)
  if (isVerbError(why)) throw why
  const { links, broken, sums } = why
  if (ctx.out.json) {
    const shown = links.map((link) => link.link === 'placement' && sums.length > 0 ? { ...link, sums } : link)
    ctx.out.value({ modelId, links: shown })
  } else {
    showLinks(ctx, links)
    if (broken === undefined) ctx.err.line(`${modelId} answers`)
    for (const line of sums) ctx.err.line(plain(line))
    const { remedy = null } = broken ?? links.at(-1) ?? {}
    if (remedy !== null) ctx.out.line(`next: ${plain(remedy)}`)
  }
  return broken === undefined ? 0 : 1
}

const MARKS = { true: ['ok', 'green'], false: ['no', 'red'], null: ['-', 'dim'] } as const

function showLinks ({ out, err, io }: VerbContext, links: readonly ChainLink[]): void {
  // Use colour only if stdout is a terminal; `err.paint` itself depends on stderr.
  const paint = io.stdout.isTTY === true ? err.paint : (_: string, text: string): string => text
  for (const { link, ok, message } of links) {
    const [mark, colour] = MARKS[`${ok}`]
    out.line(`${paint(colour, mark.padEnd(2))}  ${link.padEnd(9)}  ${plain(message)}`)
  }
}

async function aboutRequest (ctx: VerbContext, id: string): Promise<number> {
  const why = await whyRequest(
    { look: createGet(ctx.client), nowMs: systemClock.now(), declared: () => ctx.declared() }, id)
  if (isVerbError(why)) throw why
  if (why.nothing !== undefined) throw ctx.fail(3, why.nothing)
  if (ctx.out.json) ctx.out.value(why.story)
  else showStory(ctx, why.story)
  return 0
}

const ENDS = {
  completed: 'completed', failed: 'failed', cancelled: 'cancelled', open: 'not yet', unknown: 'unknown'
} as const

function showStory ({ out, err }: VerbContext, story: RequestHistory): void {
  const { asked, entered, ran, parts, ended, around, logs, tookMs } = story
  const instance = asked.instanceId === null ? '' : `, instance ${asked.instanceId}`
  const nodes = new Set(parts.map(({ node }) => node)).size
  const over = ended.how === 'unknown' ? 'no node works on it' : 'it has ended'
  const rows: [title: string, lines: readonly string[]][] = [
    ['', [[['task', asked.taskId], ['command', asked.commandId]]
      .filter(([, id]) => id !== null).map((pair) => pair.join(' ')).join(', ')]],
    ['asked', [`${asked.kind ?? 'request'} ` +
      `for ${asked.modelId ?? 'an unrecorded model'}${asked.at === null ? '' : `, ${asked.at}`}`]],
    ['entered', [entered ?? 'not recorded']],
    ['ran', [ran.length === 0 ? 'not recorded' : `${ran.join(', ')}${instance}`]],
    ['took', [
      ...tookMs === null ? [] : [showMs(tookMs)], ...parts.map((part) => partText(part, tookMs, nodes))
    ]],
    ['ended', [[ENDS[ended.how], ended.reason, ended.message]
      .filter((text) => text !== null && text !== '').join(': ')]],
    ['around', around.map(({ at, text }) => `${at}  ${text}`)],
    ['logs', logs.map(({ at, node, text }) => `${at}  ${node}: ${text}`)],
    ['then', story.then],
    ['now', [story.open ? 'it is still in progress' : over]],
    ['next', story.next]
  ]
  for (const [title, lines] of rows) {
    lines.forEach((line, i) => { out.line(plain(`${(i === 0 ? title : '').padEnd(8)}${line}`).trimEnd()) })
  }
  for (const text of story.unseen) err.line(`not checked: ${plain(text)}`)
}

function partText ({ words, node, startMs, tookMs }: Part, wholeMs: number | null, nodes: number): string {
  const share = wholeMs === null || wholeMs === 0 ? '' : `${Math.round(tookMs / wholeMs * 100)} %`.padStart(6)
  const times = `  +${showMs(startMs).padEnd(8)} ${showMs(tookMs).padStart(8)} ${share}`
  return `${times}  ${words}${nodes > 1 ? ` (${node})` : ''}`
}
