import type { RouteDecl } from '../api/plugin.js'
import type { ErrorFormat } from './server.js'

/** Returns a function that lists the methods allowed at a path, for 405 answers. */
export function methodFinder (routes: readonly RouteDecl[]): (path: string) => string[] {
  const table = routes.map((route) => ({ ...route, pattern: pathPattern(route) }))
  return (path) => {
    const found = table.filter(({ pattern }) => pattern.test(path))
    const named = found.filter(({ url }) => url === path)
    return [...new Set((named.length > 0 ? named : found).map(({ method }) => method))]
  }
}

/**
 * Picks the error format for an unmatched path: the most frequent one of the routes that share its longest
 * prefix of whole segments. A format that a route declares precedes svc's own.
 */
export function errorFormatFinder (routes: readonly RouteDecl[]): (path: string) => ErrorFormat {
  const byBeginning = new Map<string, RouteDecl['failure'][]>()
  const formats = new Map<RouteDecl['failure'], ErrorFormat>([[undefined, {}]])
  for (const { url, also = [], failure, idHeader } of routes) {
    if (failure !== undefined) {
      formats.set(failure, { failure, ...idHeader === undefined ? {} : { idHeader } })
    }
    for (const beginning of [url, ...also].flatMap(beginnings)) {
      byBeginning.set(beginning, [...byBeginning.get(beginning) ?? [], failure])
    }
  }
  return (path) => {
    const longest = beginnings(path).find((beginning) => byBeginning.has(beginning)) ?? ''
    const found = (byBeginning.get(longest) ?? []).filter((failure) => failure !== undefined)
    const count = (one: RouteDecl['failure']): number => found.filter((failure) => failure === one).length
    return formats.get(found.sort((a, b) => count(b) - count(a))[0])!
  }
}

/** A path and its prefixes of whole segments, longest first, without the empty prefix. */
function beginnings (path: string): string[] {
  const parts = path.split('/').slice(1)
  return parts.map((_, i) => parts.slice(0, parts.length - i).join('/'))
}

/** Matches the paths of a route whose parameters match their patterns, of those that match whole values. */
function pathPattern ({ url, params }: RouteDecl): RegExp {
  const { properties = {} } = (params ?? {}) as { properties?: Record<string, { pattern?: string }> }
  const parts = url.split('/').map((part) => {
    if (part === '*') return '.*'
    if (!part.startsWith(':')) return part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    const [, whole = '[^/]+'] = /^\^(.*)\$$/.exec(properties[part.slice(1)]?.pattern ?? '') ?? []
    return `(?:${whole})`
  })
  return new RegExp(`^${parts.join('/')}$`, 'u')
}
