import { invalid } from './error-body.js'
import type { RouteDecl } from '../api/plugin.js'

/** Route parameter for a model id, which contains a slash. */
const PARAM = ':model_id'

/** Rewrites a request's raw path for the router. */
export type Rewrite = (method: string, url: string) => string

export const namesModel = (url: string): boolean => url.includes(PARAM)

/** Throws `invalid_request` for a model id that would lead out of a models folder. */
export function refuseOddModel (id: string): void {
  const odd = id.startsWith('/') || /[\0\\]/.test(id) || id.split('/').some((part) => part === '..')
  if (!odd) return
  const message = 'is not a model id: "..", a leading slash, a backslash and NUL are not allowed'
  throw invalid([{ path: 'model_id', message }], 'params')
}

interface Pattern { method: string, before: string, expression: RegExp, tail: number }

/**
 * Leads a route's further paths to the route, and accepts an unencoded `org/name` as well as `org%2Fname`:
 * encodes the slash on routes with `:model_id` before routing. The route with the longest suffix wins, so
 * `/store/models/a/b/manifest` is the manifest of `a/b`.
 */
export function modelPaths (routes: readonly RouteDecl[]): Rewrite {
  const at = (method: string, path: string): string => `${method === 'HEAD' ? 'GET' : method} ${path}`
  const own = new Set(routes.map(({ method, url }) => at(method, url)))
  // Without a method too, so that another method of a further path gets the route's 405.
  const others = new Map(routes.flatMap(({ method, url, also = [] }) =>
    also.flatMap((path): [string, string][] => [[at(method, path), url], [path, url]])))
  const patterns = routes.filter(({ url }) => namesModel(url)).map(patternOf).sort((a, b) => b.tail - a.tail)
  return (method, url) => {
    const query = url.indexOf('?')
    const path = query < 0 ? url : url.slice(0, query)
    const other = own.has(at(method, path)) ? undefined : others.get(at(method, path)) ?? others.get(path)
    if (other !== undefined) return other + url.slice(path.length)
    for (const { method: own, before, expression } of patterns) {
      // Compares the literal beginning first, which is cheap, since this runs for every request.
      if (!path.startsWith(before)) continue
      if (own !== method && !(own === 'GET' && method === 'HEAD')) continue
      const found = expression.exec(path)
      if (found === null) continue
      const [, id, after] = found
      return `${before}${id!.replaceAll('/', '%2F')}${after!}${url.slice(path.length)}`
    }
    return url
  }
}

function patternOf ({ method, url }: RouteDecl): Pattern {
  const [before = '', after = ''] = url.split(PARAM)
  const literal = (text: string): string => text.replace(/[.+?^${}()|[\]\\]/g, '\\$&')
  // On a route that ends with `*`, the id must not include any of the path after it.
  const rest = after.endsWith('*') ? `(.+?)(${literal(after.slice(0, -1))}.*)` : `(.+)(${literal(after)})`
  return { method, before, expression: new RegExp(`^${literal(before)}${rest}$`), tail: after.length }
}
