import { isVerbError, modelInPath, plain, readModelId } from '../../../kernel/cli/index.js'
import { nameOf } from './api.js'
import type { SeenState } from './api.js'
import { linesOf } from './sums.js'
import { requestIdIn, whyRequest } from './why-request.js'
import type { Verb, VerbContext } from '../../../kernel/cli/index.js'

/** One link of GET /models/{id}/availability. `ok` is null where an earlier one is broken. */
interface Link { link: string, ok: boolean | null, message: string, remedy: string | null }

/** The body of GET /models/{id}/availability. */
interface Availability { model_id: string, links: Link[] }

/** A row of GET /instance/previews. */
interface Row { error: string | null, reason: string | null, details: Record<string, unknown> | null }

export default {
  async run (ctx, [model]) {
    const id = requestIdIn(model!)
    if (id !== null) {
      await whyRequest(ctx, id)
      return 0
    }
    const modelId = readModelId(ctx, model!)
    const links = await look(ctx, modelId)
    const broken = links.find(({ ok }) => ok === false)
    const sums = broken?.link === 'placement' ? await refusalOf(ctx, modelId) : []
    if (ctx.out.json) ctx.out.value({ modelId, links: sums.length === 0 ? links : withSums(links, sums) })
    else show(ctx, { modelId, links, sums, broken })
    return broken === undefined ? 0 : 1
  }
} satisfies Verb

async function look (ctx: VerbContext, modelId: string): Promise<Link[]> {
  const { links } = await ctx.client.json<Availability>(`/models/${modelInPath(modelId)}/availability`)
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
  const [previews, state] = await Promise.all([
    client.json<{ previews: Row[] }>(`/instance/previews?${query}`).then((body) => body.previews, refused),
    client.json<SeenState>('/state')
  ])
  const [first] = previews
  if (first === undefined || previews.some(({ error }) => error === null)) return []
  return [`it cannot be placed now: ${first.error!}`,
    ...linesOf(modelId, first.details, (id) => nameOf(state, id))]
}

function refused (error: unknown): Row[] {
  if (isVerbError(error) && error.api?.reason === 'model_unknown') return []
  throw error
}

const withSums = (links: readonly Link[], sums: string[]): (Link & { sums?: string[] })[] =>
  links.map((link) => link.link === 'placement' ? { ...link, sums } : link)

const MARKS = { true: 'ok', false: 'no', null: '-' } as const
const COLOURS = { ok: 'green', no: 'red', '-': 'dim' } as const

interface Shown { modelId: string, links: readonly Link[], sums: readonly string[], broken: Link | undefined }

function show ({ out, err, io }: VerbContext, { modelId, links, sums, broken }: Shown): void {
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
  for (const line of sums) err.line(plain(line))
  if (broken.remedy !== null) out.line(`next: ${plain(broken.remedy)}`)
}
