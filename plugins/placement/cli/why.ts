import { plain } from '../../../kernel/index.js'
import { isVerbError, readModelId } from './api.js'
import type { SeenState } from './api.js'
import { linksOf } from './links.js'
import type { Card, Link, Ready, Row } from './links.js'
import type { Verb, VerbContext } from '../../../kernel/index.js'

export default {
  async run (ctx, [model]) {
    const modelId = readModelId(ctx, model!)
    const links = await look(ctx, modelId)
    const broken = links.find(({ ok }) => ok === false)
    if (ctx.out.json) ctx.out.value({ modelId, links })
    else show(ctx, modelId, links, broken)
    return broken === undefined ? 0 : 1
  }
} satisfies Verb

async function look (ctx: VerbContext, modelId: string): Promise<Link[]> {
  const { client } = ctx
  const path = modelId.split('/').map(encodeURIComponent).join('/')
  const query = new URLSearchParams({ model_id: modelId }).toString()
  const card = await orRefusal(client.json<Card>(`/models/${path}/card`), ['model_not_found'])
  const state = await client.json<SeenState>('/state')
  const previews = card === undefined
    ? undefined
    : await orRefusal(client.json<{ previews: Row[] }>(`/instance/previews?${query}`), ['model_unknown'])
  const links = linksOf({ modelId, card, state, previews: previews?.previews ?? [], ready: null })
  // Asking for real work makes sense only where a runner can do it.
  if (links.some(({ ok }) => ok === false)) return links
  const ready = await readiness(ctx, `/readyz?${new URLSearchParams({ model: modelId }).toString()}`)
  return linksOf({ modelId, card, state, previews: previews?.previews ?? [], ready })
}

/** The answer; undefined for an error with one of these reasons. */
async function orRefusal<T> (answer: Promise<T>, reasons: readonly string[]): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isVerbError(error) && reasons.includes(error.api?.reason ?? '')) return undefined
    throw error
  }
}

/** Whether the model answers, by the node that is asked. */
async function readiness ({ client }: VerbContext, path: string): Promise<Ready> {
  try {
    const { checks } = await client.json<{ checks: { name: string, detail: string }[] }>(path)
    return { ok: true, detail: checks.find(({ name }) => name === 'runners')?.detail ?? 'it answers' }
  } catch (error) {
    if (!isVerbError(error) || error.api?.reason !== 'not_ready') throw error
    const checks = (error.api.details?.['checks'] ?? []) as { ok: boolean, detail: string }[]
    return { ok: false, detail: checks.find(({ ok }) => !ok)?.detail ?? error.api.message }
  }
}

const MARKS = { true: 'ok', false: 'no', null: '-' } as const
const COLOURS = { ok: 'green', no: 'red', '-': 'dim' } as const

function show ({ out, err, io }: VerbContext, modelId: string, links: readonly Link[], broken?: Link): void {
  // Colours are for stderr elsewhere; here the marks are the data.
  const paint = io.stdout.isTTY === true ? err.paint : (_: string, text: string): string => text
  for (const { link, ok, message } of links) {
    const mark = MARKS[String(ok) as keyof typeof MARKS]
    out.line(`${paint(COLOURS[mark], mark.padEnd(2))}  ${link.padEnd(9)}  ${plain(message)}`)
  }
  if (broken === undefined) {
    err.line(`${modelId} answers`)
    return
  }
  for (const line of broken.sums ?? []) err.line(line)
  if (broken.remedy !== null) out.line(`next: ${plain(broken.remedy)}`)
}
