import type { VerbContext } from './verb.js'

/** The rule for model ids; the node checks further. */
const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}\/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/

/** True for text such as `acme/voice`. Keeps `..` out of addresses. */
export const isModelId = (text: string): boolean => MODEL_ID.test(text) && !text.includes('..')

/** The text as a model id. Throws VerbError (2) for anything else. */
export function readModelId (ctx: Pick<VerbContext, 'fail'>, text: string): string {
  if (isModelId(text)) return text
  throw ctx.fail(2, `"${text.slice(0, 200)}" is no model: expected org/name, such as acme/voice`)
}

/** A model id as part of an address. */
export const modelInPath = (modelId: string): string => modelId.split('/').map(encodeURIComponent).join('/')
