import type { RouteDecl } from '../api/plugin.js'
import type { ErrorFormat } from './server.js'

/** Returns a function that lists the methods allowed at a path, for 405 answers. */
export function methodFinder (routes: readonly RouteDecl[]): (path: string) => string[] {
  const table = routes.map(({ method, url }) => ({ method, url, pattern: pathPattern(url) }))
  return (path) => {
    const found = table.filter(({ pattern }) => pattern.test(path))
    const named = found.filter(({ url }) => url === path)
    return [...new Set((named.length > 0 ? named : found).map(({ method }) => method))]
  }
}

/**
 * Picks the error format for an unmatched path: that of the routes sharing the longest prefix of whole
 * segments, if they agree.
 */
export function errorFormatFinder (routes: readonly RouteDecl[]): (path: string) => ErrorFormat {
  const byBeginning = new Map<string, Set<RouteDecl['failure']>>()
  const formats = new Map<RouteDecl['failure'], ErrorFormat>([[undefined, {}]])
  for (const { url, failure, idHeader } of routes) {
    if (failure !== undefined) {
      formats.set(failure, { failure, ...idHeader === undefined ? {} : { idHeader } })
    }
    for (const beginning of beginnings(url)) {
      const found = byBeginning.get(beginning) ?? new Set()
      byBeginning.set(beginning, found.add(failure))
    }
  }
  return (path) => {
    const longest = beginnings(path).find((beginning) => byBeginning.has(beginning)) ?? ''
    const [failure, ...others] = byBeginning.get(longest) ?? []
    return others.length > 0 ? {} : formats.get(failure)!
  }
}

/** A path and its prefixes of whole segments, longest first, without the empty prefix. */
function beginnings (path: string): string[] {
  const parts = path.split('/').slice(1)
  return parts.map((_, i) => parts.slice(0, parts.length - i).join('/'))
}

function pathPattern (url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (part === '*') return '.*'
    return part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${parts.join('/')}$`)
}
