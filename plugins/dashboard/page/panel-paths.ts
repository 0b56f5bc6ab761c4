// What a panel may ask the page for.

/** Whether a path, with or without a query, is one of these routes (`:name` stands for one part). */
export function mayAsk (routes: readonly string[], path: string): boolean {
  const [plain = ''] = path.split(/[?#]/)
  if (!plain.startsWith('/') || path.startsWith('//') || path.includes('\\')) return false
  const parts = plain.split('/')
  if (parts.some((part) => /^(\.|%2e){1,2}$/i.test(part))) return false
  return routes.some((route) => {
    const wanted = route.split('/')
    return wanted.length === parts.length && wanted.every((part, i) =>
      part.startsWith(':') ? parts[i] !== '' : part === parts[i])
  })
}
