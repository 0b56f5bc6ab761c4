import {
  fact, modelInPath, nearest, quoted, createToolReads, unreadableSentence, type Fact, type Tool,
  type VerbError
} from '../../../kernel/cli/index.js'
import { nameOf } from '../cli/state.js'
import { linesOf, type PreviewRow } from '../cli/sums.js'
import { modelOf, nodesOf } from '../place/instance.js'
import { REFUSALS } from '../planner/types.js'
import { wouldBe, type WouldBe } from './model-chain.js'
import type { WhyState } from './request-facts.js'
import { sentenceEnd } from './request-words.js'

interface Args { model: string, without?: string }

export default {
  async run (ctx, { model, without }) {
    const { read, unknown } = createToolReads(ctx)
    const [state, would] = await Promise.all([
      read<WhyState>('The state of the cluster', '/state'), wouldBe(ctx.look, model, without)
    ])
    if (state === null) return { facts: [], unknown }
    const name = (id: string): string => nameOf(state, id)
    const here = Object.values(state.instances).filter((one) => modelOf(one) === model).flatMap(nodesOf)
    const facts = here.length === 0 ? [] : [fact('info', 'placed', `${model} is placed on ${
      [...new Set(here.map(name))].join(', ')} already; this is about another instance.`, { about: [model] })]
    if (would.refusal !== null) {
      const refused = refusedFacts({ model, would, refusal: would.refusal, name })
      return refused === null
        ? { facts, unknown: [...unknown, unreadableSentence(`Whether ${model} fits`, would.refusal)] }
        : { facts: [...refused, ...facts], unknown }
    }
    const query = new URLSearchParams({
      model_id: model, ...without === undefined ? {} : { excluded_nodes: without }
    }).toString()
    const rows = await read<{ previews: PreviewRow[] }>('The calculation', `/instance/previews?${query}`)
    const row = rows?.previews.find(({ error }) => error === null)
    const sums = row === undefined ? [] : linesOf(model, row.details, name)
    const nodes = would.nodeIds.map(name)
    const [less, exclude] = without === undefined ? ['', '']
      : [` without ${quoted(without)}`, ` --exclude ${quoted(without)}`]
    const told = sums.length === 0 ? '' : ` (${sums.map(sentenceEnd).join('; ')})`
    const fits = fact('ok', 'fits', `${model} fits${less}: it would go to ${nodes.join(', ')}${told}.`, {
      about: [model, ...nodes], evidence: [{ kind: 'path', path: `/instance/previews?${query}` }],
      remedy: `Place it: \`svc place ${model}${exclude}\`.`
    })
    return { facts: [fits, ...facts], unknown }
  }
} satisfies Tool<Args>

interface Refused { model: string, would: WouldBe, refusal: VerbError, name: (nodeId: string) => string }

function refusedFacts ({ model, would: { ways }, refusal, name }: Refused): Fact[] | null {
  const { reason = '', message = '', details } = refusal.api ?? {}
  if (reason === 'model_unknown') return [unknownFact(model, details)]
  if (reason === 'info_pending' || !REFUSALS.some((one) => one === reason)) return null
  const sums = linesOf(model, { ...details, suggestions: [] }, name)
  const code = reason === 'insufficient_memory' ? 'does_not_fit' : reason
  const said = sums.length === 0 ? sentenceEnd(message) : sums.map(sentenceEnd).join('; ')
  const [best, ...others] = ways.map(({ text, command }) =>
    command === null ? `It would fit after this: ${text}.` : `To ${text}: \`${command}\`.`)
  return [
    fact('warn', code, `${model} does not fit: ${said}.`, {
      about: [model], evidence: [{ kind: 'error', reason }],
      remedy: best ?? `Free memory, or add a node; the calculation: \`svc place ${model} ` +
      '--dry-run --explain`.'
    }),
    ...others.map((way) => fact('info', 'way_out', way, { about: [model], remedy: way }))
  ]
}

function unknownFact (model: string, details: Record<string, unknown> | undefined): Fact {
  const known = (details?.['known'] ?? []) as string[]
  const near = nearest(model, known)
  return fact('fail', 'model_unknown', `No model is called ${model} here${
    near === undefined ? '' : `; ${quoted(near)} is`}.`, {
    about: [model], evidence: [{ kind: 'path', path: `/models/${modelInPath(model)}/availability` }],
    remedy: `Download it: \`svc pull ${model}\`, then \`svc place ${model} --dry-run --explain\` shows ` +
      'the calculation.'
  })
}
