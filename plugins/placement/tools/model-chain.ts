import { isVerbError, modelInPath, type ToolContext, type VerbError } from '../../../kernel/cli/index.js'
import { nameOf, queueOf, type SeenState } from '../cli/state.js'
import { nodesOf } from '../place/instance.js'
import { capacityRemedy, type Instance } from '../../runners/service.js'
import { linesOf, waysOf, type PreviewRow, type FitSuggestion } from '../cli/sums.js'

type Look = ToolContext['look']

/** One check of GET /models/{id}/availability. `ok` is null after a failed check; old nodes send no code. */
export interface ChainLink {
  link: string
  ok: boolean | null
  message: string
  remedy: string | null
  code?: string | null
}

export interface ModelDiagnosis {
  modelId: string
  links: ChainLink[]
  broken: ChainLink | undefined
  /** Memory figures that explain a refused placement; empty if there is no refusal with a known reason. */
  sums: string[]
  ways: FitSuggestion[]
}

/** Checks every step from a model's name to its answer. Resolves to an error if the node refuses. */
export async function whyModel (look: Look, modelId: string): Promise<ModelDiagnosis | VerbError> {
  const answer = await look<{ links: ChainLink[] }>(`/models/${modelInPath(modelId)}/availability`)
  if (isVerbError(answer)) return answer
  const asked = answer.links.find(({ ok }) => ok === false)
  // Send a test request only if all links are fine, which means that a runner is ready.
  const last = asked === undefined ? await request(look, modelId) : undefined
  if (isVerbError(last)) return last
  const links = last === undefined ? answer.links : [...answer.links.slice(0, -1), last]
  const broken = links.find(({ ok }) => ok === false)
  return { modelId, links, broken, ...broken?.link === 'placement' ? await refusalOf(look, modelId) : FITS }
}

async function request (look: Look, modelId: string): Promise<ChainLink | VerbError> {
  const link = 'request'
  const answer = await look<{ checks: { name: string, detail: string }[] }>(
    `/readyz?${new URLSearchParams({ model: modelId }).toString()}`)
  if (!isVerbError(answer)) {
    const message = answer.checks.find(({ name }) => name === 'runners')?.detail ?? 'it answers'
    const state = await look<SeenState>('/state')
    const { waiting, running } = queueOf(isVerbError(state) ? {} : state, (task) => task.modelId === modelId)
    return waiting === 0 ? { link, ok: true, message, remedy: null } : {
      link, ok: true, message: `${message}; ${waiting} requests wait for a slot, ${running} are running`,
      remedy: capacityRemedy(modelId)
    }
  }
  if (answer.api?.reason !== 'not_ready') return answer
  const checks = (answer.api.details?.['checks'] ?? []) as { ok: boolean, detail: string }[]
  const detail = checks.find(({ ok }) => !ok)?.detail ?? answer.api.message
  return {
    link,
    ok: false,
    code: 'not_answering',
    message: `this node gets no answer from it: ${detail}`,
    remedy: `Restart it: \`svc stop ${modelId}\`, then \`svc place ${modelId}\`; \`svc events --since ` +
      '10m` shows failures.'
  }
}

type Refusal = Pick<ModelDiagnosis, 'sums' | 'ways'>
const FITS: Refusal = { sums: [], ways: [] }

export interface WouldBe { nodeIds: string[], refusal: VerbError | null, ways: FitSuggestion[] }

export async function wouldBe (look: Look, modelId: string, without?: string): Promise<WouldBe> {
  const query = new URLSearchParams({
    model_id: modelId, ...without === undefined ? {} : { excluded_nodes: without }
  }).toString()
  const answer = await look<Instance>(`/instance/placement?${query}`)
  return isVerbError(answer)
    ? { nodeIds: [], refusal: answer, ways: waysOf(modelId, answer.api?.details) }
    : { nodeIds: nodesOf(answer), refusal: null, ways: [] }
}

async function refusalOf (look: Look, modelId: string): Promise<Refusal> {
  const query = new URLSearchParams({ model_id: modelId }).toString()
  const [answer, state] = await Promise.all([
    look<{ previews: PreviewRow[] }>(`/instance/previews?${query}`), look<SeenState>('/state')
  ])
  if (isVerbError(answer) || isVerbError(state)) return FITS
  const [first] = answer.previews
  if (first === undefined || answer.previews.some(({ error }) => error === null)) return FITS
  const lines = linesOf(modelId, first.details, (id) => nameOf(state, id))
  const { ways } = await wouldBe(look, modelId)
  return { sums: [`it cannot be placed now: ${first.error!}`, ...lines], ways }
}
