import { linkTo, route } from '../route.js'
import { Section } from './parts.js'
import type { ComponentType } from 'preact'

interface TabsProps {
  page: string, label: string
  /** Tabs by name; the first is shown if the URL names none. */
  tabs: Readonly<Record<string, { title: string, component: ComponentType<{ asked: string | null }> }>>
  framed?: boolean
}

/** Shows tabs and the selected tab's component, which gets the path part after the tab's name. */
export function Tabs ({ page, label, tabs, framed = false }: TabsProps) {
  const [name = '', asked = null] = route.value.parts
  const shown = Object.hasOwn(tabs, name) ? name : Object.keys(tabs)[0]!
  const { title, component: Shown } = tabs[shown]!
  return (
    <>
      <nav class="tabs" aria-label={label}>
        {Object.entries(tabs).map(([to, { title }]) => (
          <a key={to} href={linkTo(page, to)} aria-current={to === shown ? 'page' : undefined}>{title}</a>
        ))}
      </nav>
      {framed ? <Section title={title}><Shown asked={asked} /></Section> : <Shown asked={asked} />}
    </>
  )
}
