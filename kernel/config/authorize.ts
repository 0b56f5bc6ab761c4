import { isDeepStrictEqual } from 'node:util'
import { kernelError } from '../api/errors.js'
import { requireAuthority } from '../http/access.js'
import { kernelKeys } from './kernel-keys.js'
import { formatPath, getIn, isTree, parsePath } from './paths.js'
import type { Caller } from '../api/plugin.js'
import type { Path } from './types.js'

/**
 * Whether a caller may change svc.yaml over HTTP from one parsed text to another. Compares what the texts
 * say, so that no way of writing a path makes a difference. Throws `invalid_request` for the module of a
 * plugin, which would be code to run; `missing_grant` for settings of plugins without `plugin:manage`, and
 * for granting what the caller has not.
 */
export function authorizeChange (before: unknown, after: unknown, caller: Caller): void {
  const changed = (path: Path): boolean => !isDeepStrictEqual(getIn(before, path), getIn(after, path))
  const plugins = getIn(after, ['plugins'])
  for (const name of isTree(plugins) ? Object.keys(plugins) : []) {
    const path = ['plugins', name, 'module']
    if (getIn(after, path) !== undefined && changed(path)) throw notOverHttp(formatPath(path))
  }
  if (changed(['plugins'])) requireAuthority(caller, 'plugin:manage')
  const granted = localIn(before)
  for (const authority of localIn(after)) {
    if (!granted.includes(authority)) requireAuthority(caller, String(authority))
  }
}

/** What needs no token in a file. */
function localIn (file: unknown): readonly unknown[] {
  const value = getIn(file, parsePath('access.local')!)
  return Array.isArray(value) ? value : kernelKeys.access.properties.local.default
}

function notOverHttp (path: string): Error {
  const message = 'names code to run; only the owner of svc.yaml sets it, in the file itself'
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}
