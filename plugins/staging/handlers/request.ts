import { kernelError } from '../../../kernel/index.js'
import type { RouteRequest } from '../../../kernel/index.js'
import { modelIdProblem } from '../files/names.js'
import type { ModelManager } from '../manager/manager.js'
import { virtualModel } from '../service.js'

/** A model id out of a request. Throws `invalid_request` naming the field. */
export function modelIdOf (value: string, path = '/model_id'): string {
  const problem = modelIdProblem(value)
  if (problem === null) return value
  const issues = [{ path, message: problem }]
  throw kernelError('invalid_request', problem, { param: path.slice(1), issues })
}

export const modelIn = ({ params }: RouteRequest): string =>
  modelIdOf((params as { model_id: string }).model_id)

/** The one of two spellings of a body's field that was given. Throws `invalid_request` when both were. */
export function either<T> (
  body: Readonly<Record<string, unknown>>, camel: string, snake: string
): T | undefined {
  if (body[camel] !== undefined && body[snake] !== undefined) {
    const message = `give ${camel} or ${snake}, not both`
    throw kernelError('invalid_request', message, { issues: [{ path: `/${snake}`, message }] })
  }
  return (body[camel] ?? body[snake]) as T | undefined
}

/** Throws for a model that plugins answer for themselves: there is nothing to fetch or to remove. */
export function refuseVirtual ({ virtual }: Pick<ModelManager, 'virtual'>, modelId: string): void {
  if (virtual().some((card) => card.modelId === modelId)) throw virtualModel(modelId)
}
