import { linkTo } from '../route.js'

interface TabsProps {
  page: string, label: string, shown: string, tabs: Readonly<Record<string, { title: string }>>
}

/** Links to the parts of a page by name; `shown` is the name of the one that is seen. */
export function Tabs ({ page, label, tabs, shown }: TabsProps) {
  return (
    <nav class="tabs" aria-label={label}>
      {Object.entries(tabs).map(([to, { title }]) => (
        <a key={to} href={linkTo(page, to)} aria-current={to === shown ? 'page' : undefined}>{title}</a>
      ))}
    </nav>
  )
}
