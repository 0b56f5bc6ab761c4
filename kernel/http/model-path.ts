import { kernelError } from '../api/errors.js'
import type { RouteDecl } from '../api/plugin.js'

/** The parameter for a model id, which contains a slash. */
const PARAM = ':model_id'

/** Rewrites the raw path of a request, if necessary. */
export type Rewrite = (method: string, url: string) => string

export const namesModel = (url: string): boolean => url.includes(PARAM)

/** Throws `invalid_request` for a model id that would lead out of a folder of models. */
export function refuseOddModel (id: string): void {
  const odd = id.startsWith('/') || /[\0\\]/.test(id) || id.split('/').some((part) => part === '..')
  if (!odd) return
  const message = 'is not a model id: "..", a leading slash, a backslash and NUL are not allowed'
  throw kernelError('invalid_request', `model_id ${message}`,
    { param: 'model_id', issues: [{ path: 'model_id', message }] })
}

interface Pattern { method: string, before: string, expression: RegExp, tail: number }

/**
 * Accepts a raw `org/name` in a path besides `org%2Fname`: encodes its slashes on routes with `:model_id`
 * before the router. The route with the longest suffix wins: `/store/models/a/b/manifest` is the manifest of
 * `a/b`.
 */
export function modelPaths (routes: readonly RouteDecl[]): Rewrite {
  const patterns = routes.filter(({ url }) => namesModel(url)).map(patternOf)
    .sort((a, b) => b.tail - a.tail)
  return (method, url) => {
    const query = url.indexOf('?')
    const path = query < 0 ? url : url.slice(0, query)
    for (const { method: own, before, expression } of patterns) {
      // Every request passes here: the beginning of the path decides for most.
      if (!path.startsWith(before)) continue
      if (own !== method && !(own === 'GET' && method === 'HEAD')) continue
      const found = expression.exec(path)
      if (found === null) continue
      const [, id, after] = found
      return `${before}${id!.replaceAll('/', '%2F')}${after!}${query < 0 ? '' : url.slice(query)}`
    }
    return url
  }
}

function patternOf ({ method, url }: RouteDecl): Pattern {
  const [before = '', after = ''] = url.split(PARAM)
  const literal = (text: string): string => text.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
  // The shortest id before the rest of a path, so that the rest is complete.
  const rest = after.endsWith('*')
    ? `(.+?)(${literal(after.slice(0, -1))}.*)` : `(.+)(${literal(after)})`
  return { method, before, expression: new RegExp(`^${literal(before)}${rest}$`), tail: after.length }
}
