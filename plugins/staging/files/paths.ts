import { isDeviceName, shown } from './names.js'

const SEGMENT = /^[A-Za-z0-9._+=@()-]{1,128}$/
const MOST_SEGMENTS = 8

/** Whether a name at the top of a model folder is one of svc's own (`.svc-record.json`, `.last_used`). */
export function isOwnName (name: string): boolean {
  const folded = name.toLowerCase()
  return folded.startsWith('.svc') || folded === '.last_used'
}

/**
 * Why a text is no path of a file in a model, as one sentence, or null when it is one: 1 to 8 segments
 * joined by `/`, relative, harmless on every platform, and not a name that svc itself uses.
 */
export function filePathProblem (path: string): string | null {
  if (typeof path !== 'string') return 'A file path is a text.'
  const problem = shapeProblem(path)
  return problem === null ? null : `${shown(path)} is no file path of a model: ${problem}.`
}

function shapeProblem (path: string): string | null {
  if (path === '') return 'it is empty'
  if (path.includes('\\')) return 'a backslash is not allowed'
  if (path.startsWith('/') || /^[A-Za-z]:/.test(path)) return 'it must be relative'
  const segments = path.split('/', MOST_SEGMENTS + 1)
  if (segments.length > MOST_SEGMENTS) return `it has more than ${MOST_SEGMENTS} segments`
  for (const segment of segments) {
    const problem = segmentProblem(segment)
    if (problem !== null) return problem
  }
  return isOwnName(segments[0]!) ? 'its first segment is a name that svc keeps for itself' : null
}

function segmentProblem (segment: string): string | null {
  if (segment === '.' || segment === '..') return '"." and ".." are not allowed'
  if (!SEGMENT.test(segment)) {
    return 'each segment is 1 to 128 of the characters A-Z a-z 0-9 . _ + = @ ( ) -'
  }
  if (segment.endsWith('.')) return 'no segment may end with a dot'
  return isDeviceName(segment) ? 'Windows keeps a segment such as CON, NUL or COM1.x for a device' : null
}

/** The folders above a path: `a/b/c` lies in `a` and `a/b`. Pure. */
export function foldersAbove (path: string): string[] {
  const segments = path.split('/')
  return segments.slice(1).map((_, i) => segments.slice(0, i + 1).join('/'))
}
