import { SvcError } from '../../kernel/index.js'
import type { ErrorDecl } from '../../kernel/index.js'
import { errors } from './errors.js'
import type { Refusal } from './planner/types.js'
import { runnerErrors } from '../runners/service.js'

const declared: Readonly<Record<string, ErrorDecl>> = { ...errors, ...runnerErrors }

/** An error with one of the reasons by which placing is refused. */
export function refuse (
  reason: keyof typeof errors | keyof typeof runnerErrors, message: string,
  details: Record<string, unknown> = {}
): SvcError {
  return new SvcError(reason, declared[reason]!, message, details)
}

/** What the planner answered, as the error that a client gets. */
export function refusalError ({ reason, message, details }: Refusal): SvcError {
  return refuse(reason, message, details)
}

/** Most names that an error lists. */
const KNOWN_MAX = 50

/** No card of that name. */
export function modelUnknown (modelId: string, known: readonly string[]): SvcError {
  return refuse('model_unknown', `No model is called ${modelId.slice(0, 200)}.`, {
    param: 'model_id',
    known: known.slice(0, KNOWN_MAX),
    remedy: `\`svc ls\` lists the models; \`svc pull ${modelId.slice(0, 200)}\` brings one.`
  })
}
