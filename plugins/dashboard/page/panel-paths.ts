/** Whether a path, with or without a query, matches a route (`:name` is one part). */
export function mayAsk (routes: readonly string[], path: string): boolean {
  if (!path.startsWith('/') || /[\\\s]/.test(path)) return false
  // Resolve `..` first, as the browser does, so that a path cannot escape the allowed routes.
  const { host, pathname } = new URL(path, 'http://page')
  if (host !== 'page') return false
  const parts = pathname.split('/')
  return routes.some((route) => {
    const wanted = route.split('/')
    return wanted.length === parts.length && wanted.every((part, i) =>
      part.startsWith(':') ? parts[i] !== '' : part === parts[i])
  })
}
